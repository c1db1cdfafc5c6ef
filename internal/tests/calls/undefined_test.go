package calls_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// An undefinedRow is what calls make of a document with undefined in a field that a filter of the library compares with null.
type undefinedRow struct {
	name string
	// seen makes the calls with the collections "c" and "d", and says what came of each.
	seen func(ctx context.Context, t *testing.T, c, d *mongo.Collection) []string
	// found is what seen returns where a filter for null finds undefined, up to MongoDB 7.0, and passed from 8.0 on, where it
	// does not. Without passed it is the same.
	found, passed string
}

// Of an undefined, either the same becomes on every server, or an error or Check tells of it. No call hangs, and none writes
// the wrong document.
func TestUndefined(t *testing.T) {
	for _, row := range undefinedRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			want := row.found
			if row.passed != "" && !nullFindsUndefined(t, db) {
				want = row.passed
			}
			testkit.Equal(t, want, strings.Join(row.seen(t.Context(), t, db.Collection("c"), db.Collection("d")), "; "))

			p := proxy.New(t, mongotest.URI(t))
			db = mongotest.Database(t, p.Options())
			p.Break(func(proxy.Command) *proxy.Fault { return &proxy.Fault{Rewrite: asOf8} })
			t.Cleanup(func() { p.Break(nil) })
			if want = row.passed; want == "" {
				want = row.found
			}
			if nullFindsUndefined(t, db) {
				t.Error("a filter for null finds undefined, in spite of the proxy")
			}
			testkit.Equal(t, want, strings.Join(row.seen(t.Context(), t, db.Collection("c"), db.Collection("d")), "; "))
		})
	}
}

func nullFindsUndefined(t *testing.T, db *mongo.Database) bool {
	t.Helper()
	testkit.Insert(t, db.Collection("undefined"), testkit.D("v", bson.Undefined{}))
	return testkit.Count(t, db.Collection("undefined"), testkit.D("v", nil)) > 0
}

// asOf8 returns a command whose filters for null pass over undefined, as those of MongoDB 8.0 do.
func asOf8(command bson.D) bson.D {
	for i, e := range command {
		switch v := e.Value.(type) {
		case bson.D:
			command[i].Value = asOf8(v)
		case bson.A:
			for j, item := range v {
				if doc, ok := item.(bson.D); ok {
					v[j] = asOf8(doc)
				}
			}
		}
		switch e.Key {
		case "filter", "query", "q", "$match", "restrictSearchWithMatch":
			command[i].Value = conditions(e.Value)
		case "$lookup":
			command[i].Value = lookup(e.Value.(bson.D))
		}
	}
	return command
}

var notUndefined = testkit.D("$not", testkit.D("$type", "undefined"))

// conditions rewrites a filter.
func conditions(filter any) any {
	doc, ok := filter.(bson.D)
	if !ok {
		return filter
	}
	for i, e := range doc {
		switch list, isList := e.Value.(bson.A); {
		case isList && strings.HasPrefix(e.Key, "$"): // $and, $or, $nor
			for j := range list {
				list[j] = conditions(list[j])
			}
		case !strings.HasPrefix(e.Key, "$"):
			doc[i].Value = condition(e.Value)
		}
	}
	return doc
}

// condition rewrites the condition on a field.
func condition(v any) any {
	if v == nil {
		return append(testkit.D("$eq", nil), notUndefined...)
	}
	doc, ok := v.(bson.D)
	if !ok || len(doc) == 0 || !strings.HasPrefix(doc[0].Key, "$") {
		return v
	}
	out := bson.D{}
	for _, e := range doc {
		values, _ := e.Value.(bson.A)
		null := e.Value == nil
		for _, v := range values {
			null = null || v == nil
		}
		switch {
		case null && (e.Key == "$eq" || e.Key == "$in"):
			out = append(append(out, e), notUndefined...)
		case null && e.Key == "$ne":
			out = append(out, bson.E{Key: "$not", Value: condition(nil)})
		case null && e.Key == "$nin":
			out = append(out, bson.E{Key: "$not", Value: condition(testkit.D("$in", values))})
		case e.Key == "$not":
			out = append(out, bson.E{Key: "$not", Value: condition(e.Value)})
		case e.Key == "$elemMatch":
			out = append(out, bson.E{Key: "$elemMatch", Value: conditions(condition(e.Value))})
		default:
			out = append(out, e)
		}
	}
	return out
}

// lookup rewrites a $lookup by fields.
func lookup(spec bson.D) bson.D {
	field, ok := testkit.Get(spec, "foreignField").(string)
	if !ok {
		return spec
	}
	stages := bson.A{testkit.D("$match", testkit.D(field, notUndefined))}
	for i, e := range spec {
		if e.Key == "pipeline" {
			spec[i].Value = append(stages, e.Value.(bson.A)...)
			return spec
		}
	}
	return append(spec, bson.E{Key: "pipeline", Value: stages})
}

// told names the outcome of a call.
func told[T any](v T, err error) string {
	for _, known := range []error{paging.ErrUnsortable, mongopatterns.ErrNotAdopted, mongopatterns.ErrMalformed, mongopatterns.ErrNotFound, mongopatterns.ErrInvalid, relation.ErrOwned} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	if result, ok := any(v).(mongopatterns.Result); ok {
		return fmt.Sprintf("%d done, %d failed, %d remaining", result.Done, result.Failed, result.Remaining)
	}
	return fmt.Sprint(v)
}

// toldErr is told for a call without a value.
func toldErr(err error) string { return told("done", err) }

// finds says what Check finds.
func finds(ctx context.Context, t *testing.T, c mongopatterns.Checker) string {
	t.Helper()
	out := []string{}
	for _, p := range testkit.Collect(t, c.Check(ctx, nil)) {
		out = append(out, fmt.Sprintf("%s %s", p.Kind, p.Field))
	}
	return fmt.Sprint(out)
}

// idsOf says which documents a sequence has, or the error at its end.
func idsOf(seq iter.Seq2[bson.D, error]) string {
	out := []any{}
	for doc, err := range seq {
		if err != nil {
			return fmt.Sprint(out, " ", toldErr(err))
		}
		out = append(out, testkit.Get(doc, "_id"))
	}
	return fmt.Sprint(out)
}

// undefinedTree is a root P with undefined in a field and its child Q.
func undefinedTree(rep tree.Representation, p, q bson.D) func(ctx context.Context, t *testing.T, c, d *mongo.Collection) []string {
	return func(ctx context.Context, t *testing.T, c, _ *mongo.Collection) []string {
		tr := testkit.Must(tree.New[string, bson.D](c, rep, nil))
		testkit.Insert(t, c, p, q)
		out := []string{idsOf(tr.Roots(ctx)), finds(ctx, t, tr)}
		out = append(out, told(tr.Repair(ctx, nil)), idsOf(tr.Roots(ctx)), finds(ctx, t, tr))
		return append(out, toldErr(tr.Move(ctx, "Q", tr.AsRoot())), idsOf(tr.Roots(ctx)))
	}
}

// undefinedList is a task whose list of owners, or a person whose list of tasks, is undefined.
func undefinedList(opts relation.Options) func(ctx context.Context, t *testing.T, c, d *mongo.Collection) []string {
	return func(ctx context.Context, t *testing.T, c, d *mongo.Collection) []string {
		r := testkit.Must(relation.New[string, int, bson.D](c, d, &opts))
		testkit.Insert(t, c, testkit.D("_id", "Ann", "tasks", bson.Undefined{}))
		testkit.Insert(t, d, testkit.D("_id", 1, "owner", bson.Undefined{}, "owners", bson.Undefined{}))
		out := []string{finds(ctx, t, r), told(r.Repair(ctx, nil)), toldErr(r.Link(ctx, "Ann", 1))}
		return append(out, told(r.Has(ctx, "Ann", 1)), finds(ctx, t, r))
	}
}

var undefinedRows = []undefinedRow{
	{"tree, parents", undefinedTree(tree.ParentReferences, testkit.D("_id", "P", "parent", bson.Undefined{}), testkit.D("_id", "Q", "parent", "P")),
		"[P]; [wrong field parent]; 1 done, 0 failed, 0 remaining; [P]; []; done; [P Q]",
		"[]; [wrong field parent]; 1 done, 0 failed, 0 remaining; [P]; []; done; [P Q]"},
	{"tree, ancestors", undefinedTree(tree.AncestorArray, testkit.D("_id", "P", "parent", bson.Undefined{}, "ancestors", bson.A{}),
		testkit.D("_id", "Q", "parent", "P", "ancestors", bson.A{"P"})),
		"[P]; [wrong field parent]; 1 done, 0 failed, 0 remaining; [P]; []; done; [P Q]",
		"[]; [wrong field parent]; 1 done, 0 failed, 0 remaining; [P]; []; done; [P Q]"},
	{"tree, paths", undefinedTree(tree.MaterializedPath, testkit.D("_id", "P", "path", bson.Undefined{}), testkit.D("_id", "Q", "path", ",P,")),
		"[P]; [wrong field path]; 1 done, 0 failed, 0 remaining; [P]; []; done; [P Q]",
		"[]; [wrong field path]; 1 done, 0 failed, 0 remaining; [P]; []; done; [P Q]"},
	{"relation, owner", undefinedList(relation.Options{OwnerField: "owner"}),
		"[malformed owner]; 0 done, 0 failed, 1 remaining; done; true; []",
		"[malformed owner]; 0 done, 0 failed, 1 remaining; owned by another parent; false; [malformed owner]"},
	{"relation, owners", undefinedList(relation.Options{OwnersField: "owners"}),
		"[malformed owners]; 0 done, 0 failed, 1 remaining; done; true; []", ""},
	{"relation, children", undefinedList(relation.Options{ChildrenField: "tasks"}),
		"[malformed tasks]; 0 done, 0 failed, 1 remaining; done; true; []", ""},
	{"outlier", func(ctx context.Context, t *testing.T, c, d *mongo.Collection) []string {
		l := testkit.Must(outlier.New[int, string](c, d, &outlier.Options{MaxCount: 2}))
		testkit.Insert(t, c, testkit.D("_id", 1, "items", bson.A{"a"}, "items_overflow", bson.Undefined{}))
		out := []string{told(l.Add(ctx, 1, "b")), told(l.Total(ctx, 1)), finds(ctx, t, l), told(l.Repair(ctx, nil))}
		return append(out, told(l.Add(ctx, 1, "c", "d")), told(l.Total(ctx, 1)), finds(ctx, t, l))
	},
		"1; not adopted; [not adopted items_overflow]; 1 done, 0 failed, 0 remaining; 2; 4; []",
		"not adopted; not adopted; [not adopted items_overflow]; 1 done, 0 failed, 0 remaining; 2; 3; []"},
	{"versioning", func(ctx context.Context, t *testing.T, c, d *mongo.Collection) []string {
		h := testkit.Must(versioning.New[int, bson.D](c, d, nil))
		testkit.Insert(t, c, testkit.D("_id", 1, "revision", bson.Undefined{}))
		_, err := h.Edit(ctx, 1, func(doc *bson.D) error { *doc = append(*doc, bson.E{Key: "x", Value: 1}); return nil }, versioning.Change{})
		return []string{told(h.Adopt(ctx, nil, nil)), toldErr(err), finds(ctx, t, h)}
	}, "0 done, 1 failed, 0 remaining; malformed; [malformed ]", ""},
	{"extref, version", func(ctx context.Context, t *testing.T, c, d *mongo.Collection) []string {
		s := testkit.Must(extref.New[int, bson.D](c, []extref.Target{{Collection: d, Path: "team", Fields: []extref.Field{{Path: "name"}}}}, nil))
		testkit.Insert(t, c, testkit.D("_id", 1, "name", "x", "version", bson.Undefined{}))
		testkit.Insert(t, d, testkit.D("_id", 1, "team", testkit.D("_id", 1)))
		out := []string{told(s.Adopt(ctx, "d.team", nil)), finds(ctx, t, s)}
		_, err := s.Update(ctx, 1, testkit.D("$set", testkit.D("name", "y")))
		return append(out, toldErr(err), finds(ctx, t, s))
	}, "0 done, 0 failed, 1 remaining; [malformed version]; invalid; [malformed version]", ""},
	{"extref, outbox", func(ctx context.Context, t *testing.T, c, d *mongo.Collection) []string {
		entries := c.Database().Collection("outbox")
		s := testkit.Must(extref.New[int, bson.D](c, []extref.Target{{Collection: d, Path: "team", Fields: []extref.Field{{Path: "name"}}}},
			&extref.Options{Outbox: entries}))
		testkit.Insert(t, entries, testkit.D("_id", 1, "change", bson.Undefined{}, "due", bson.DateTime(0)))
		return []string{toldErr(testkit.ErrorOf(s.Drain(ctx, nil))), fmt.Sprint(testkit.Count(t, entries, bson.D{}), " left")}
	}, "done; 0 left", ""},
	{"computed", func(ctx context.Context, t *testing.T, c, d *mongo.Collection) []string {
		r := testkit.Must(computed.New[int, string, bson.D](c, d, computed.Rule{KeyField: "film", Pipeline: perFilm, Empty: testkit.D("n", 0)}, nil))
		testkit.Insert(t, d, testkit.D("_id", "Dumbo", "computed", testkit.D("epoch", bson.Undefined{})))
		return []string{told(r.Refresh(ctx, "Dumbo")), finds(ctx, t, r)}
	}, "1 done, 0 failed, 0 remaining; []", ""},
	{"paging", func(ctx context.Context, t *testing.T, c, _ *mongo.Collection) []string {
		up := testkit.Must(paging.New[bson.D](c, testkit.D("v", 1), nil))
		down := testkit.Must(paging.New[bson.D](c, testkit.D("v", -1), &paging.Options{PageSize: 1}))
		testkit.Insert(t, c, testkit.D("_id", 1, "v", 1), testkit.D("_id", 2, "v", nil), testkit.D("_id", 3, "v", bson.Undefined{}))
		return []string{idsOf(up.All(ctx, nil, paging.Request{})), idsOf(down.All(ctx, nil, paging.Request{}))}
	}, "[] unsortable value; [1 2] unsortable value", ""},
	{"attribute", func(ctx context.Context, t *testing.T, c, _ *mongo.Collection) []string {
		a := testkit.Must(attribute.New[int, int](c, nil))
		testkit.Insert(t, c, testkit.D("_id", 1, "attributes", bson.Undefined{}))
		key := attribute.Named("k")
		return []string{toldErr(a.Set(ctx, 1, key, 1)), toldErr(a.Add(ctx, 1, attribute.Named("l"), 1)), told(a.Get(ctx, 1, key))}
	}, "done; done; 1", ""},
}
