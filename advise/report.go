package advise

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Report is what Look found.
type Report struct {
	Database string    `json:"database"`
	At       time.Time `json:"at"`
	// Findings are what would pay. First comes what saves bytes, then what saves reads their work,
	// each with the largest saving first.
	Findings []Finding `json:"findings"`
	// Shapes are the queries that will be slow when there is more data, the most common first.
	Shapes []Shape `json:"shapes"`
	// Indexes are those that are missing, with those that most commands would use first, and then those that could go.
	Indexes []Index `json:"indexes"`
	// Remarks are what the data shows without a query. What fails soonest comes first.
	Remarks []Remark `json:"remarks"`
	// NotAdvised are the patterns that were weighed and would not pay.
	NotAdvised []Note `json:"notAdvised"`
	// Unknown could not be told.
	Unknown []Note `json:"unknown"`
	// Sources say where queries were looked for.
	Sources  []Source      `json:"sources"`
	Commands int           `json:"commands"` // how many were sent
	Took     time.Duration `json:"took"`

	commands []command // for Try
}

// Finding is a pattern that would pay, and why.
type Finding struct {
	Pattern    string   `json:"pattern"` // the package: outlier
	Collection string   `json:"collection"`
	Path       string   `json:"path,omitempty"`   // of the list, or of the reference
	Fields     []string `json:"fields,omitempty"` // of a split, or of an order

	Summary string `json:"summary"` // a sentence or two
	Sure    string `json:"sure"`    // how sure, and from what
	Facts   []Fact `json:"facts"`
	// Saving is what the pattern saves, computed from this collection. Without a Unit it was not computed, and its What
	// says why.
	Saving Interval `json:"saving"`
	// Grows is what grows in turn, from Before by Low to High, computed from this collection.
	Grows []Interval `json:"grows,omitempty"`
	// Code is Go that compiles where db is a *mongo.Database and err is handled.
	Code string `json:"code"`
	// Adopt is Go that follows the Code, with a ctx, and takes over the documents that exist. Where there is nothing
	// to take over, it creates the indexes.
	Adopt string `json:"adopt"`
	// Manual is the pattern's manual, which says what Adopt needs of the programs that write meanwhile.
	Manual string `json:"manual"`
	// Check is a query that gives the main figure.
	Check Check `json:"check"`
	// Against is what speaks against the pattern.
	Against []string `json:"against"`

	// Distribution has the documents by the length of the list, and Limit is the length that the
	// Code names.
	Distribution []Bar `json:"distribution,omitempty"`
	Limit        int64 `json:"limit,omitempty"`

	try    trying   // nil: it cannot be tried
	takes  string   // the call that takes over documents, where it is not Adopt, and of extref its target
	others []string // collections that it needs besides
	moves  []string // those of them whose documents it moves
}

// Name is the finding in a word: outlier:orders.items.
func (f Finding) Name() string { return f.Pattern + ":" + f.place() }

func (f Finding) place() string {
	switch {
	case f.Path != "":
		return f.Collection + "." + f.Path
	case f.Pattern == "paging" && len(f.Fields) > 0:
		return f.Collection + "." + strings.Join(f.Fields, ",")
	}
	return f.Collection
}

// overlaps reports two findings that move the same field.
func (f Finding) overlaps(other Finding) bool {
	if f.Collection != other.Collection || f.Saving.Unit != "bytes" || other.Saving.Unit != "bytes" {
		return false
	}
	moves := func(f Finding) []string {
		if f.Path == "" {
			return f.Fields
		}
		return []string{f.Path}
	}
	return slices.ContainsFunc(moves(f), func(a string) bool {
		return slices.ContainsFunc(moves(other), func(b string) bool { return related(a, b) })
	})
}

// Fact is a figure, and how it was found.
type Fact struct {
	What  string `json:"what"`
	Value int64  `json:"value"`
	How   string `json:"how"` // counted, estimated, kept by the server, or of the queries seen
}

// How a figure was found: estimates are of ranges of _id, where a scan would take too long. The server keeps the number and size of a collection's
// documents without a scan; after a crash they may be off, and on a sharded cluster they may count orphaned
// documents.
const (
	counted = "counted"
	guessed = "estimated"
	kept    = "kept by the server"
	seen    = "of the queries seen"
)

// Interval is a saving or a growth, of Before.
type Interval struct {
	Low    int64  `json:"low"`
	High   int64  `json:"high"`
	Unit   string `json:"unit"` // bytes, keys, documents, round trips, writes; "": not computed
	What   string `json:"what"`
	Before int64  `json:"before"`
}

// What grows.
const (
	ofDocuments = "of the documents"
	ofIndexes   = "of the indexes"
)

// Check is a command that only reads, and the figure in its answer.
type Check struct {
	Shell  string   `json:"shell"` // for mongosh
	Answer int64    `json:"answer"`
	Path   []string `json:"path"` // of the figure in the answer
	// Estimated says that the Answer was not counted, because the command would take too long.
	Estimated bool `json:"estimated,omitempty"`

	reply  bson.Raw
	within string // the interval of an estimate
	all    int64  // what its answer is a part of, estimated as well
}

// sure says how the Answer was found.
func (c Check) sure() string {
	if c.Estimated {
		return c.within
	}
	return counted
}

// how is sure, in the words of a Fact.
func (c Check) how() string {
	if c.Estimated {
		return guessed
	}
	return counted
}

// Bar is the documents whose lists have From to To elements.
type Bar struct {
	From      int64 `json:"from"`
	To        int64 `json:"to"`
	Documents int64 `json:"documents"`
	Elements  int64 `json:"elements"`
	Bytes     int64 `json:"bytes"`
	Largest   int64 `json:"largest"` // bytes of the largest list
}

// Note is a pattern that is not advised, or that nothing can be said of.
type Note struct {
	Pattern    string `json:"pattern,omitempty"` // "": any
	Collection string `json:"collection"`
	Path       string `json:"path,omitempty"`
	Reason     string `json:"reason"`
	Tells      string `json:"tells,omitempty"` // what would tell it
}

// Source is a place where queries were looked for.
type Source struct {
	Name    string `json:"name"`
	Queries int    `json:"queries"`
	Of      int64  `json:"of,omitempty"`   // how many there were; the newest were read. 0: all were read
	Note    string `json:"note,omitempty"` // why there are none
}

func (r *Report) finish(commands int, took time.Duration) {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(unit(a), unit(b)), cmp.Compare(b.Saving.Low, a.Saving.Low), strings.Compare(a.Name(), b.Name()))
	})
	for i := range r.Findings {
		for j := range r.Findings {
			if i != j && r.Findings[i].overlaps(r.Findings[j]) {
				r.Findings[i].Against = append(r.Findings[i].Against, "It saves the same bytes as "+r.Findings[j].Name()+": choose one.")
			}
		}
	}
	slices.SortStableFunc(r.Remarks, func(a, b Remark) int {
		return cmp.Or(cmp.Compare(slices.Index(remarkKinds, a.Kind), slices.Index(remarkKinds, b.Kind)), cmp.Compare(b.Check.Answer, a.Check.Answer), strings.Compare(a.Name(), b.Name()))
	})
	byPlace := func(a, b Note) int {
		return cmp.Or(strings.Compare(a.Collection, b.Collection), strings.Compare(a.Path, b.Path), strings.Compare(a.Pattern, b.Pattern))
	}
	slices.SortStableFunc(r.NotAdvised, byPlace)
	slices.SortStableFunc(r.Unknown, byPlace)
	r.NotAdvised = slices.Compact(r.NotAdvised)
	r.Commands, r.Took = commands, took
}

// unit puts bytes before what single reads save, which is not comparable.
func unit(f Finding) int {
	if f.Saving.Unit == "" {
		return 100
	}
	return slices.Index([]string{"bytes", "keys", "documents", "round trips", "writes"}, f.Saving.Unit)
}

// check runs the query that a reader can run by hand.
func (l *looker) check(ctx context.Context, command bson.D, path ...string) (Check, error) {
	shell, err := shellOf(command)
	if err != nil {
		return Check{}, err
	}
	reply, err := l.run(ctx, l.db, command)
	if err != nil {
		return Check{}, err
	}
	return Check{Shell: shell, Answer: integer(reply, path...), Path: path, reply: reply}, nil
}

// unchecked is a query that is not run, and an estimate of its answer.
func unchecked(command bson.D, answer int64, path ...string) (Check, error) {
	shell, err := shellOf(command)
	return Check{Shell: shell, Answer: answer, Path: path, Estimated: true}, err
}

func shellOf(command bson.D) (string, error) {
	printed, err := bson.MarshalExtJSON(command, false, false)
	if err != nil {
		return "", err
	}
	shell := "db.runCommand(" + string(printed) + ")"
	if strings.Contains(shell, `{"$`) && command[0].Key == "explain" { // values of any type
		shell = "db.runCommand(EJSON.deserialize(" + string(printed) + "))"
	}
	return shell, nil
}

// figure is another figure beside the Answer.
func (c Check) figure(name string) int64 {
	return integer(c.reply, append(slices.Clone(c.Path[:len(c.Path)-1]), name)...)
}

// integer is a number in a document, 0 if there is none.
func integer(raw bson.Raw, path ...string) int64 {
	n, _ := raw.Lookup(path...).AsInt64OK()
	return n
}

func text(raw bson.Raw, path ...string) string {
	s, _ := raw.Lookup(path...).StringValueOK()
	return s
}

// share is a part in percent, with two digits that say something.
func share(part, all int64) string {
	percent := 100 * float64(part) / float64(max(all, 1))
	switch {
	case percent == 0 || percent >= 10:
		return fmt.Sprintf("%.0f %%", percent)
	case percent >= 1:
		return fmt.Sprintf("%.1f %%", percent)
	}
	return strconv.FormatFloat(percent, 'g', 2, 64) + " %"
}

// bytes is a size with two or three digits.
func bytes(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	size, unit := float64(n), 0
	for size >= 1000 && unit < len(units)-1 {
		size /= 1000
		unit++
	}
	if unit > 0 && size < 10 {
		return fmt.Sprintf("%.1f %s", size, units[unit])
	}
	return fmt.Sprintf("%.0f %s", size, units[unit])
}

// group is a number with commas.
func group(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// many is a number and a word: 1 document, 2 documents.
func many(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return group(n) + " " + word + "s"
}

// either is the word for one, or that for several.
func either(n int64, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// verb is the form of a verb for n: 1 names, 2 name.
func verb(n int64, several string) string {
	switch several {
	case "have":
		return either(n, "has", several)
	case "are":
		return either(n, "is", several)
	}
	return either(n, several+"s", several)
}

// round goes up to a number with one or two digits before its zeros: 137 becomes 140.
func round(n int64) int64 {
	step := int64(1)
	for n/step >= 100 {
		step *= 10
	}
	return (n + step - 1) / step * step
}
