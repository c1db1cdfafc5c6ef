// Command advise looks at a live database and says which pattern would pay, with the
// figures and the code to paste. It only reads; -try also writes, to a scratch database on the
// server of -try-uri.
//
//	go install github.com/mongopatterns/mongopatterns/cmd/advise # go run has no exit code but 0 and 1
//	advise -uri mongodb://localhost:27017 -db shop
//	advise -uri … -db shop -log mongod.log      # with the slow queries of a log
//	advise -uri … -db shop -json > known.json   # one object a line
//	advise -uri … -db shop -baseline known.json # what is new since then
//	advise -uri … -db shop -ignore 'outlier:orders.*' -ignore 'skip:find orders *'
//	advise -uri … -db shop -try outlier orders.items -try-uri mongodb://localhost
//
// Queries that get slower with the data count as findings do, if a pattern is advised for them or an
// index is missing, and so do indexes that are missing or could go, and what the data shows. It exits with 0 if it
// advises nothing, or nothing that is new and not ignored, with 1 if it advises something, with 3
// if it advises nothing but something could not be told, and with 2 if it failed or was interrupted:
// what it has found by then is printed. With -try
// it prints what the reads that were seen cost on the copy, before and after, and what the
// pattern saves there. It exits with 0 if that is what was promised, within a factor of two, and
// with 1 if not. Package advise says what findings mean and how the server is spared.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/credentials"
	"github.com/mongopatterns/mongopatterns/internal/visible"
)

const (
	exitNothing = 0
	exitAdvised = 1
	exitFailed  = 2
	exitUnknown = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// settings are the command line.
type settings struct {
	uri, db     string
	collections list
	logs        list
	ignore      list
	baseline    string
	json, quiet bool
	try, tryURI string
	tryOptions  advise.TryOptions
	options     advise.Options
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func parse(args []string, notes io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("advise", flag.ContinueOnError)
	flags.SetOutput(notes)
	flags.StringVar(&s.uri, "uri", "", "the server's `URI`; default $MONGODB_URI")
	flags.StringVar(&s.db, "db", "", "the database")
	flags.Var(&s.collections, "collection", "look at this collection alone; may be repeated")
	flags.Var(&s.logs, "log", "take slow queries from this `file`, a mongod's log; may be repeated")
	flags.Var(&s.ignore, "ignore", "leave out findings such as outlier:orders.items, or unknown:*; * is any characters; may be repeated")
	flags.StringVar(&s.baseline, "baseline", "", "leave out the findings in this `file`, an earlier output of -json")
	flags.BoolVar(&s.json, "json", false, "print one JSON object a line: findings, queries, indexes, remarks on the data, and what could not be told")
	flags.BoolVar(&s.quiet, "quiet", false, "no progress")
	flags.DurationVar(&s.options.MaxTime, "max-time", 2*time.Second, "bound of each command")
	flags.DurationVar(&s.options.Budget, "budget", time.Minute, "bound of all together")
	flags.IntVar(&s.options.MaxCommands, "max-commands", 20_000, "bound of the number of commands")
	flags.StringVar(&s.try, "try", "", "try this `PATTERN` COLLECTION.FIELD on a copy of a part, and compare with the promise")
	flags.StringVar(&s.tryURI, "try-uri", "", "the `URI` of the server for the copy, a scratch database that is dropped; required with -try")
	flags.Int64Var(&s.tryOptions.Documents, "try-documents", 20_000, "copy at most this many documents of a collection")
	flags.Int64Var(&s.tryOptions.Bytes, "try-bytes", 64<<20, "copy at most this many bytes of a collection")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.try != "" && !strings.Contains(s.try, ":") && flags.NArg() > 0 {
		s.try += ":" + flags.Arg(0)
		if err := flags.Parse(flags.Args()[1:]); err != nil {
			return s, err
		}
	}
	s.uri = cmp.Or(s.uri, os.Getenv("MONGODB_URI")) // not as the flag's default, which the usage prints
	if s.uri == "" || s.db == "" || flags.NArg() > 0 {
		flags.Usage()
		return s, errors.New("-uri and -db are required, and there are no other arguments")
	}
	if (s.try == "") != (s.tryURI == "") {
		return s, errors.New("-try and -try-uri are given together")
	}
	s.options.Collections = s.collections
	return s, nil
}

// run prints the report and returns the exit code.
func run(ctx context.Context, args []string, out, notes io.Writer) int {
	s, err := parse(args, notes)
	if errors.Is(err, flag.ErrHelp) {
		return exitNothing
	}
	var code int
	if err == nil {
		code, err = advice(ctx, s, out, notes)
	}
	if err != nil {
		fmt.Fprintln(notes, visible.Text(credentials.Hide(err.Error(), s.uri, s.tryURI)))
		return exitFailed
	}
	return code
}

func advice(ctx context.Context, s settings, w, notes io.Writer) (int, error) {
	known, err := baseline(s.baseline)
	if err != nil {
		return 0, err
	}
	if s.options.Queries, err = logged(s.logs); err != nil {
		return 0, err
	}
	if !s.quiet {
		s.options.Progress = func(p advise.Progress) {
			fmt.Fprintf(notes, "%d of %d: %s\n", p.Done+1, p.Of, visible.Name(p.Collection))
		}
	}
	client, err := connect("-uri or MONGODB_URI", s.uri)
	if err != nil {
		return 0, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = client.Disconnect(ending) // nothing was written
	}()
	report, lookErr := advise.Look(ctx, client.Database(s.db), &s.options)
	if report == nil {
		return 0, lookErr
	}
	if s.try != "" {
		if lookErr != nil {
			return 0, lookErr
		}
		return try(ctx, s, client.Database(s.db), report, w)
	}
	all := reported(report)
	out := func(name string) bool { return known[name] || ignored(s.ignore, name) }
	report.Findings = slices.DeleteFunc(report.Findings, func(f advise.Finding) bool { return out(f.Name()) })
	report.Shapes = slices.DeleteFunc(report.Shapes, func(s advise.Shape) bool { return out(s.Name()) })
	report.Indexes = slices.DeleteFunc(report.Indexes, func(i advise.Index) bool { return out(i.Name()) })
	report.Remarks = slices.DeleteFunc(report.Remarks, func(r advise.Remark) bool { return out(r.Name()) })
	report.Unknown = slices.DeleteFunc(report.Unknown, func(n advise.Note) bool { return out(n.Name()) })
	if left := all - reported(report); left > 0 {
		fmt.Fprintf(notes, "%d left out by -ignore or -baseline\n", left)
	}
	if err := errors.Join(write(s, report, w), lookErr); err != nil {
		return 0, err
	}
	if advised(report) > 0 {
		return exitAdvised, nil
	}
	if len(report.Unknown) > 0 {
		return exitUnknown, nil
	}
	return exitNothing, nil
}

// connect returns a client for the URI that name gives.
func connect(name, uri string) (*mongo.Client, error) {
	opts, err := credentials.Options(uri)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return mongo.Connect(opts.SetAppName("mongopatterns advise"))
}

// try prints what the pattern saves on a copy: 0 if that is what was promised, within a
// factor of two, and 1 if not.
func try(ctx context.Context, s settings, db *mongo.Database, report *advise.Report, w io.Writer) (int, error) {
	i := slices.IndexFunc(report.Findings, func(f advise.Finding) bool { return f.Name() == s.try })
	if i < 0 {
		return 0, fmt.Errorf("-try: %s is not advised: %s", s.try, whyNot(report, s.try))
	}
	client, err := connect("-try-uri", s.tryURI)
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }() // the copy is dropped before
	trial, err := advise.Try(ctx, db, client.Database("advise_try_"+bson.NewObjectID().Hex()), report, report.Findings[i], &s.tryOptions)
	if err != nil {
		return 0, err
	}
	print := trial.Text
	if s.json {
		print = trial.JSON
	}
	if err := print(w); err != nil {
		return 0, err
	}
	if !trial.Kept() {
		return exitAdvised, nil
	}
	return exitNothing, nil
}

// several is what a note about collections together has in the place of a name.
var several = regexp.MustCompile(`^[\d,]+ collections?$`)

// whyNot are the report's reasons not to advise a pattern, or else not to look at the collection, or else what it advises
// and which collections it left out.
func whyNot(report *advise.Report, name string) string {
	_, place, _ := strings.Cut(name, ":")
	var reasons, whole, left, advised []string
	for _, n := range slices.Concat(report.NotAdvised, report.Unknown) {
		switch {
		case strings.TrimPrefix(n.Name(), "unknown:") == name:
			reasons = append(reasons, n.Reason)
		case n.Pattern != "" || n.Path != "":
		case place == n.Collection || strings.HasPrefix(place, n.Collection+"."):
			whole = append(whole, n.Collection+" "+n.Reason)
		case several.MatchString(n.Collection):
			left = append(left, n.Collection+" left out: "+n.Reason)
		}
	}
	for _, f := range report.Findings {
		advised = append(advised, f.Name())
	}
	switch {
	case reasons != nil:
		return strings.Join(reasons, "; ")
	case whole != nil:
		return strings.Join(whole, "; ")
	case advised != nil:
		reasons = append(reasons, "nothing else was seen than for "+strings.Join(advised, ", "))
	default:
		reasons = append(reasons, "nothing was seen that any pattern would save")
	}
	return strings.Join(append(reasons, left...), "; ")
}

// reported is how many findings, queries, indexes, remarks and unknowns a report has, advised how many of them call for something.
func reported(r *advise.Report) int {
	return len(r.Findings) + len(r.Shapes) + len(r.Indexes) + len(r.Remarks) + len(r.Unknown)
}

func advised(r *advise.Report) int {
	n := len(r.Findings) + len(r.Indexes) + len(r.Remarks)
	for _, s := range r.Shapes {
		if s.Advised() {
			n++
		}
	}
	return n
}

func write(s settings, report *advise.Report, out io.Writer) error {
	if s.json {
		return report.JSON(out)
	}
	return report.Text(out)
}

// baseline reads the names of what an earlier run printed by -json.
func baseline(file string) (map[string]bool, error) {
	known := map[string]bool{}
	if file == "" {
		return known, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := json.NewDecoder(bufio.NewReader(f))
	for {
		var line json.RawMessage
		err := in.Decode(&line)
		if errors.Is(err, io.EOF) {
			return known, nil
		}
		var finding advise.Finding
		var shape advise.Shape
		var note struct {
			Unknown *advise.Note   `json:"unknown"`
			Index   *advise.Index  `json:"index"`
			Remark  *advise.Remark `json:"remark"`
		}
		if err != nil {
			return nil, fmt.Errorf("-baseline %s: %w", file, err)
		}
		if err = errors.Join(json.Unmarshal(line, &finding), json.Unmarshal(line, &shape), json.Unmarshal(line, &note)); err != nil {
			return nil, fmt.Errorf("-baseline %s: %w", file, err)
		}
		switch {
		case note.Unknown != nil:
			known[note.Unknown.Name()] = true
		case note.Remark != nil:
			known[note.Remark.Name()] = true
		case note.Index != nil:
			known[note.Index.Name()] = true
		case shape.Kind != "":
			known[shape.Name()] = true
		default:
			known[finding.Name()] = true
		}
	}
}

func logged(files []string) ([]advise.Query, error) {
	var queries []advise.Query
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		more, err := advise.Log(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("-log %s: %w", name, err)
		}
		queries = append(queries, more...)
	}
	return queries, nil
}

func ignored(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, name) })
}

// matches reports a name of a pattern, in which * is any characters.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	name, ok := strings.CutPrefix(name, parts[0])
	if !ok || last == 0 {
		return ok && name == ""
	}
	for _, part := range parts[1:last] {
		if _, name, ok = strings.Cut(name, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(name, parts[last])
}
