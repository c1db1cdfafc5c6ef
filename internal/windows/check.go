package windows

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Report records a problem of a document.
type Report func(kind mongopatterns.ProblemKind, field string, have, want bson.RawValue, detail string)

// An Audit reports the problems of a document, and returns the update that solves those of the kind
// mongopatterns.WrongField.
type Audit func(doc bson.Raw, report Report) mongo.Pipeline

func (f *Frame) inspect(doc bson.Raw, audit Audit) (problems []mongopatterns.Problem, solve mongo.Pipeline) {
	solve = audit(doc, func(kind mongopatterns.ProblemKind, field string, have, want bson.RawValue, detail string) {
		problems = append(problems, mongopatterns.Problem{Pattern: f.Pattern, Kind: kind, Collection: f.Coll.Name(),
			ID: doc.Lookup("_id"), Field: field, Have: have, Want: want, Detail: detail})
	})
	return problems, solve
}

// Problems yields the problems that audit reports for the documents of a scan, and the paths that no
// document has.
func (f *Frame) Problems(ctx context.Context, work *mongopatterns.Work, scan maintain.Scan, audit Audit, paths ...string) iter.Seq2[mongopatterns.Problem, error] {
	found := maintain.Check(ctx, f.Coll, work, scan, func(_ context.Context, batch []bson.Raw) (all []mongopatterns.Problem, _ error) {
		for _, doc := range batch {
			problems, _ := f.inspect(doc, audit)
			all = append(all, problems...)
		}
		return all, nil
	})
	found = maintain.Chain(found, maintain.Absent(ctx, f.Coll, work, f.Pattern, append([]string{f.SeriesField}, paths...)...))
	return func(yield func(mongopatterns.Problem, error) bool) {
		if err := maintain.Ready(ctx, work, f.Coll); err != nil {
			yield(mongopatterns.Problem{}, err)
			return
		}
		found(yield)
	}
}

// Shared yields a Duplicate problem for each key of the elements of an array that two documents of a window share, or,
// without an array, for each window that has two documents. It reads nothing if unique exists, the index that refuses them.
//
// Cost: 1 round trip; without the index, 1 for each batch more, and the server groups all keys.
func (f *Frame) Shared(ctx context.Context, work *mongopatterns.Work, unique mongo.IndexModel, array, key string) iter.Seq2[mongopatterns.Problem, error] {
	group, pipeline, field := f.Keys(), mongo.Pipeline{}, f.StartField
	for i := range group {
		group[i].Value = expr.Field(group[i].Key)
	}
	scan := maintain.Scan{}
	if array != "" {
		field = array + "." + key
		keys := expr.Map(expr.Array(expr.Field(array)), "m", expr.IfNull(expr.Var("m."+key), nil)) // the index has null for a missing one
		scan.Filter = expr.D(field, expr.Op("$exists", true))
		pipeline = mongo.Pipeline{
			expr.Op("$project", append(slices.Clone(group), expr.Element("~key", expr.Op("$setUnion", keys)))),
			expr.Op("$unwind", "$~key"),
		}
		group = append(group, expr.Element("~key", "$~key"))
	}
	scan.Pipeline = append(pipeline,
		expr.Op("$group", expr.D("_id", group, "first", expr.Op("$min", "$_id"), "last", expr.Op("$max", "$_id"), "count", expr.Op("$sum", 1))),
		expr.Op("$match", expr.D("count", expr.Op("$gt", 1))))
	return func(yield func(mongopatterns.Problem, error) bool) {
		if !txn.Running(ctx) { // which refuses to list indexes
			refused, err := indexes.Has(ctx, f.Coll.Driver(), unique)
			if err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			if refused {
				return
			}
		}
		maintain.Check(ctx, f.Coll, work, scan, func(_ context.Context, groups []bson.Raw) (all []mongopatterns.Problem, _ error) {
			for _, g := range groups {
				have := value.Lookup(g, "_id."+f.StartField)
				if array != "" {
					have = value.Lookup(g, "_id.~key")
				}
				all = append(all, mongopatterns.Problem{Pattern: f.Pattern, Kind: mongopatterns.Duplicate, Collection: f.Coll.Name(),
					ID: g.Lookup("last"), Field: field, Have: have,
					Detail: fmt.Sprintf("%d documents of the window have it, also _id %s", g.Lookup("count").AsInt64(), value.Text(g.Lookup("first")))})
			}
			return all, nil
		})(yield)
	}
}

// Repair sends the updates that audit returns, to documents whose guards still have the values that were
// read.
func (f *Frame) Repair(ctx context.Context, work *mongopatterns.Work, scan maintain.Scan, audit Audit, guards ...string) (mongopatterns.Result, error) {
	if err := maintain.Ready(ctx, work, f.Coll); err != nil {
		return mongopatterns.Result{}, err
	}
	return maintain.Run(ctx, f.Coll, work, scan, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		var models []mongo.WriteModel
		for _, doc := range batch {
			problems, solve := f.inspect(doc, audit)
			wrong := false
			for _, p := range problems {
				if p.Kind == mongopatterns.WrongField {
					wrong = true
				} else {
					result.Remaining++
				}
			}
			if wrong {
				models = append(models, mongo.NewUpdateOneModel().SetFilter(f.UnchangedFilter(doc, guards...)).SetUpdate(solve))
			}
		}
		return maintain.Rewrite(ctx, f.Coll, models, w, result)
	})
}

// Above are stages that replace arrays above the paths by documents, because a $set would write into each
// element of such an array.
func Above(paths []string) (out mongo.Pipeline) {
	for depth := 1; ; depth++ {
		var set bson.D
		known := map[string]bool{}
		for _, path := range paths {
			names := strings.Split(path, ".")
			if len(names) <= depth {
				continue
			}
			above := strings.Join(names[:depth], ".")
			if !known[above] {
				set = append(set, expr.Unarrayed(above))
			}
			known[above] = true
		}
		if set == nil {
			return out
		}
		out = append(out, expr.Op("$set", set))
	}
}

// Span reports a start that is not a date or not the start of a window, and an end that is not that of the
// window. It returns the bounds of the window that holds the start. If the start is right and EndField is stored,
// set has the right end. dated reports whether the start is a date.
func (f *Frame) Span(doc bson.Raw, report Report) (start, end int64, set bson.D, dated bool) {
	at := value.Lookup(doc, f.StartField)
	ms, dated := at.DateTimeOK()
	start, end = f.Bounds(ms)
	var none bson.RawValue
	switch {
	case !dated:
		report(mongopatterns.Malformed, f.StartField, at, none, "")
	case start != ms:
		report(mongopatterns.Malformed, f.StartField, at, Date(start), "")
	case f.EndField != "":
		want := f.EndOf(end)
		if have := value.Lookup(doc, f.EndField); !have.Equal(Date(int64(want))) {
			report(mongopatterns.WrongField, f.EndField, have, Date(int64(want)), "")
		}
		set = expr.D(f.EndField, want)
	}
	return start, end, set, dated
}
