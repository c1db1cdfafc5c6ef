package advise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Options bound what Look does, and tell it what the database does not show. The zero value looks
// at all collections, for a minute at most.
type Options struct {
	// Collections are the collections to look at. Default nil: all.
	Collections []string
	// Queries are what a service sends, from [Commands], [Log] or your own code. Look adds those of
	// system.profile and $queryStats, where it may read them. Default nil.
	Queries []Query

	// MaxTime bounds each command, on the server too. Default 2 seconds.
	MaxTime time.Duration
	// Budget bounds Look. Default 1 minute.
	Budget time.Duration
	// MaxCommands bounds the commands. Default 20,000.
	MaxCommands int

	// Progress is called before each collection. Default nil.
	Progress func(Progress)
}

// Progress says how far Look is.
type Progress struct {
	Collection string // the next one
	Done, Of   int    // collections
	Commands   int    // sent so far
}

// least is how many documents a collection has at least for a look: in fewer, a
// share of the documents says nothing, and there is little to save. Smaller ones that queries name are the other side of
// a reference, have long lists, or a counter.
const least = 100

// leastLists is the same where only lists matter that most documents have.
const leastLists = 20

// Look looks at the collections of a database and says which patterns would pay. It only reads. If ctx ends, it
// returns what it has found by then, and the error. If it cannot list the collections, it returns no report, and
// if there are no collections, ErrInvalid. A collection that it cannot read, because the user lacks a role or the
// time is over, is named in the report.
//
// Cost: 3 round trips, some 6 for each collection with 100 documents or more, and 1 or 2 scans for each thing that it
// suspects.
//   - The manual of the package has the list.
func Look(ctx context.Context, db *mongo.Database, opts *Options) (report *Report, err error) {
	defer fault.In(&err, "advise.Look")
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxTime < 0 || o.Budget < 0 || o.MaxCommands < 0 {
		return nil, fault.Invalid("Options.MaxTime, Budget and MaxCommands must not be negative")
	}
	o.MaxTime = cmp.Or(o.MaxTime, 2*time.Second)
	o.Budget = cmp.Or(o.Budget, time.Minute)
	o.MaxCommands = cmp.Or(o.MaxCommands, 20_000)

	begin := time.Now()
	l := &looker{
		options: o,
		server:  &server{db: db, maxTime: o.MaxTime, ends: begin.Add(o.Budget), left: o.MaxCommands},
		report:  &Report{Database: db.Name(), At: begin},
		others:  map[string]string{},

		indexesOf: map[string][]index{},
	}
	names, err := l.list(ctx)
	if err != nil { // there is nothing to report: no server, no right, no database
		return nil, err
	}
	err = l.look(ctx, names)
	l.unmanaged()
	l.weighed()
	l.report.finish(l.server.sent, time.Since(begin))
	return l.report, err
}

// looker is one run of Look.
type looker struct {
	options Options
	*server
	report *Report
	given  []Query                // Options.Queries, without what the profile has
	logged map[string][]int       // those of them from a log, by key
	reads  map[string]*traffic    // by collection
	all    map[string]*collection // those that are looked at
	others map[string]string      // why others are not, by collection
	few    []*collection          // those of all with too few documents for a share, which queries name
	small  []*collection          // the others with too few, which may refer to them

	indexesOf map[string][]index // by collection, once they are known
}

// collection is what is known of a collection.
type collection struct {
	name   string
	count  int64
	size   int64 // bytes of BSON
	capped bool
	fields []field
	lists  []*list // once they are counted
	idType string
	types  map[string]string // counted
	mixed  []string          // which types there are, where there are several
	strata []stratum         // once it is estimated
	// derived are the reference to the parent and a field that tells the ancestors besides.
	derived []string
	*traffic
}

// few reports too few documents for a share of them.
func (c *collection) few() bool { return c.count < least }

func (c *collection) mean() int64 { return c.size / max(c.count, 1) }

func (l *looker) look(ctx context.Context, names []string) error {
	if err := l.queries(ctx, names); err != nil {
		return err
	}
	all, err := l.sizes(ctx, names)
	if err != nil {
		return err
	}
	for _, c := range l.few {
		if err := l.lookAtFew(ctx, c); err != nil {
			return err
		}
	}
	for i, c := range all {
		if l.spent() {
			l.unknown("", many(int64(len(all)-i), "collection"), "", l.reason(errBudget), l.remedy(errBudget))
			break
		}
		if l.options.Progress != nil {
			l.options.Progress(Progress{c.name, i, len(all), l.sent})
		}
		if err := l.lookAt(ctx, c); err != nil {
			l.unknown("", c.name, "", "the look was ended before", "another run")
			return err
		}
	}
	for _, c := range all { // once the fields of all are known
		for _, detect := range []func(context.Context, *collection) error{l.series, l.relation, l.newest, l.computed} {
			if err := detect(ctx, c); err != nil {
				return err
			}
		}
	}
	for _, c := range l.few {
		for _, detect := range []func(context.Context, *collection) error{l.relation, l.newest} {
			if err := detect(ctx, c); err != nil {
				return err
			}
		}
	}
	if err := l.indexAdvice(ctx, all); err != nil {
		return err
	}
	for _, c := range all { // last, as it asks the most
		if err := l.referencing(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// list returns the names of the plain collections. Views have no documents, and
// time series are a pattern already.
func (l *looker) list(ctx context.Context) ([]string, error) {
	var only bson.D
	if len(l.options.Collections) > 0 {
		only = bson.D{{Key: "name", Value: bson.D{{Key: "$in", Value: l.options.Collections}}}}
	}
	command := bson.D{{Key: "listCollections", Value: 1}, {Key: "nameOnly", Value: true}, {Key: "authorizedCollections", Value: true},
		{Key: "cursor", Value: bson.D{{Key: "batchSize", Value: 100_000}}}}
	if only != nil {
		command = append(command, bson.E{Key: "filter", Value: only})
	}
	reply, err := l.run(ctx, l.db, command)
	if err != nil {
		return nil, err
	}
	batch, err := l.batch(ctx, l.db, reply)
	if err != nil {
		return nil, err
	}
	var names, others []string
	for _, raw := range batch {
		var c struct {
			Name string `bson:"name"`
			Type string `bson:"type"`
		}
		if err := bson.Unmarshal(raw, &c); err != nil {
			return nil, err
		}
		switch {
		case strings.HasPrefix(c.Name, "system."):
		case c.Type == "collection":
			names = append(names, c.Name)
		default:
			others = append(others, c.Name)
			l.others[c.Name] = "is a " + c.Type
			l.not("", c.Name, "", l.others[c.Name])
		}
	}
	if len(names)+len(others)+len(l.options.Collections) == 0 {
		return nil, fault.Invalid("there is no database %q, or it has no collections that the user may read", l.db.Name())
	}
	for _, name := range l.options.Collections {
		if !slices.Contains(names, name) && !slices.Contains(others, name) {
			return nil, fault.Invalid("Options.Collections: there is no collection %q", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		by := keeper(name, names)
		if by == "" {
			return false
		}
		l.others[name] = "has the name of a collection that " + by
		l.not("", name, "", l.others[name])
		return true
	}), nil
}

// sizes returns the collections worth a look, the largest first, so that the budget
// is spent where most can be saved. Both numbers are exact, and cost no scan.
func (l *looker) sizes(ctx context.Context, names []string) ([]*collection, error) {
	var all []*collection
	small := 0
	for i, name := range names {
		c, err := l.stats(ctx, name)
		if errors.Is(err, errBudget) {
			l.unknown("", many(int64(len(names)-i), "collection"), "", l.reason(err), l.remedy(err))
			break
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			l.others[name] = "could not be read"
			l.unknown("", name, "", l.reason(err), l.remedy(err))
		case c.few():
			if l.reads[name] != nil && c.count > 0 && !c.capped {
				l.few = append(l.few, c)
			} else {
				l.small = append(l.small, c)
			}
			l.others[name] = fmt.Sprintf("has %s, fewer than %d", many(c.count, "document"), least)
			if len(l.options.Collections) == 0 {
				small++
			} else {
				l.not("", name, "", l.others[name])
			}
		default:
			all = append(all, c)
		}
	}
	if small > 0 {
		l.not("", many(int64(small), "collection"), "", fmt.Sprintf("fewer than %d documents each", least))
	}
	l.all = map[string]*collection{}
	for _, c := range append(slices.Clone(all), l.few...) {
		l.all[c.name] = c
	}
	slices.SortStableFunc(all, func(a, b *collection) int { return cmp.Compare(b.size, a.size) })
	return all, nil
}

// known returns the collection with a name, or nil. It may be a small one that no query names.
func (l *looker) known(name string) *collection {
	if c := l.all[name]; c != nil {
		return c
	}
	if i := slices.IndexFunc(l.small, func(c *collection) bool { return c.name == name }); i >= 0 {
		return l.small[i]
	}
	return nil
}

// unseen says why a collection is not looked at.
func (l *looker) unseen(name string) string {
	reason, ok := l.others[name]
	switch {
	case ok:
	case len(l.options.Collections) > 0 && !slices.Contains(l.options.Collections, name):
		reason = "is not among Options.Collections"
	case l.spent():
		reason = "was not reached within the budget"
	default:
		reason = "does not exist"
	}
	return name + " " + reason
}

// stats reads what the server keeps about a collection; a shard each counts its own.
func (l *looker) stats(ctx context.Context, name string) (*collection, error) {
	sum := func(field string) bson.D { return bson.D{{Key: "$sum", Value: "$storageStats." + field}} }
	batch, err := l.aggregate(ctx, name, bson.A{
		bson.D{{Key: "$collStats", Value: bson.D{{Key: "storageStats", Value: bson.D{}}}}},
		bson.D{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: nil}, {Key: "count", Value: sum("count")}, {Key: "size", Value: sum("size")},
			{Key: "capped", Value: bson.D{{Key: "$max", Value: "$storageStats.capped"}}},
		}}},
	})
	if err != nil {
		return nil, err
	}
	c := &collection{name: name, traffic: l.reads[name]}
	if c.traffic == nil {
		c.traffic = &traffic{}
	}
	if len(batch) > 0 {
		c.count, c.size = integer(batch[0], "count"), integer(batch[0], "size")
		c.capped, _ = batch[0].Lookup("capped").BooleanOK()
	}
	return c, nil
}

// lookAt asks every detector about one collection. Only the end of ctx is an error.
func (l *looker) lookAt(ctx context.Context, c *collection) error {
	if c.capped {
		l.not("", c.name, "", "is capped: its documents cannot move to another collection")
		return nil
	}
	if err := l.shape(ctx, c); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.unknown("", c.name, "", l.reason(err), l.remedy(err))
		return nil
	}
	lists, err := l.lists(ctx, c)
	if err != nil {
		return err
	}
	c.lists = lists
	l.maps(c)
	for _, list := range lists {
		if err := l.failed(ctx, l.outlier(ctx, c, list), "outlier", c, list.path); err != nil {
			return err
		}
		if err := l.longList(ctx, c, list); err != nil {
			return err
		}
	}
	if err := l.failed(ctx, l.split(ctx, c), "split", c, ""); err != nil {
		return err
	}
	for _, detect := range []func(context.Context, *collection) error{l.paging, l.tree, l.extref, l.attribute, l.approx, l.data} {
		if err := detect(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// lookAtFew asks what does not need many documents: lists that are long in half of them, counters, and later relation. The collection may be the other side of a
// reference besides.
func (l *looker) lookAtFew(ctx context.Context, c *collection) error {
	if err := l.shape(ctx, c); err != nil {
		return l.failed(ctx, err, "", c, "")
	}
	lists, err := l.lists(ctx, c)
	if err != nil {
		return err
	}
	c.lists = lists
	for _, list := range lists {
		if list.total < leastLists {
			continue
		}
		if err := l.longList(ctx, c, list); err != nil {
			return err
		}
	}
	return l.approx(ctx, c)
}

// longList asks the rules for lists that are long in half of the documents.
func (l *looker) longList(ctx context.Context, c *collection, a *list) error {
	if err := l.failed(ctx, l.subset(ctx, c, a), "subset", c, a.path); err != nil {
		return err
	}
	return l.failed(ctx, l.grown(ctx, c, a), "series", c, a.path)
}

// declined is why a rule does not advise its pattern.
type declined string

func (e declined) Error() string { return string(e) }

// untold is why a rule cannot tell whether its pattern pays, and what would tell. An estimate may be too wide.
type untold struct{ reason, tells string }

func (e untold) Error() string { return e.reason }

// failed notes why a rule made no finding: it declined, could not tell, or a command failed. Only the end of ctx is an
// error.
func (l *looker) failed(ctx context.Context, err error, pattern string, c *collection, path string) error {
	var why declined
	var unsure untold
	switch {
	case err == nil:
		return nil
	case errors.As(err, &why):
		l.not(pattern, c.name, path, string(why))
	case errors.As(err, &unsure):
		l.unknown(pattern, c.name, path, unsure.reason, unsure.tells)
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		l.unknown(pattern, c.name, path, l.reason(err), l.remedy(err))
	}
	return nil
}

// anyType is a type parameter in the Code of a finding.
var anyType = regexp.MustCompile(`[\[ ]any[,\]]`)

// found adds a finding. Look leaves it out if the library manages the collection already.
func (l *looker) found(f Finding) {
	if f.Adopt == "" {
		f.Adopt = adoption(f)
	}
	if anyType.MatchString(f.Code) {
		var mixed []string
		for _, name := range append([]string{f.Collection}, f.others...) {
			if c := l.known(name); c != nil {
				mixed = append(mixed, c.mixed...)
			}
		}
		f.Code = strings.Join(slices.Compact(mixed), "") + f.Code
	}
	f.Manual = "https://github.com/mongopatterns/mongopatterns/blob/main/" + f.Pattern + "/doc.go"
	l.report.Findings = append(l.report.Findings, f)
}

func (l *looker) not(pattern, collection, path, reason string) {
	l.report.NotAdvised = append(l.report.NotAdvised, Note{Pattern: pattern, Collection: collection, Path: path, Reason: reason})
}

func (l *looker) unknown(pattern, collection, path, reason, tells string) {
	l.report.Unknown = append(l.report.Unknown, Note{Pattern: pattern, Collection: collection, Path: path, Reason: reason, Tells: tells})
}
