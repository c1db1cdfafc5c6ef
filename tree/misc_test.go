package tree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// TestErrorsNameTheCall: every error begins with the package, once, and the call.
func TestErrorsNameTheCall(t *testing.T) {
	begin := regexp.MustCompile(`^tree: [a-z ]+: `)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, v := range variants()[:5] {
		tr := v.open(t, mongotest.Database(t).Collection("nodes"))
		for name, err := range map[string]error{
			"Children":         drain(tr.Children(ctx, "x")),
			"Siblings":         drain(tr.Siblings(ctx, "x")),
			"Descendants":      drain(tr.Descendants(ctx, "x", 0)),
			"Preorder":         drain(tr.Preorder(ctx, "x", 0)),
			"Roots":            drain(tr.Roots(ctx)),
			"Leaves":           drain(tr.Leaves(ctx)),
			"LeavesBelow":      drain(tr.LeavesBelow(ctx, "x")),
			"Dump":             drain(tr.Dump(ctx)),
			"Check":            drain(tr.Check(ctx, nil)),
			"Ancestors":        errOf(tr.Ancestors(ctx, "x")),
			"Parent":           errOf(tr.Parent(ctx, "x")),
			"Depth":            errOf(tr.Depth(ctx, "x")),
			"IsDescendant":     errOf(tr.IsDescendant(ctx, "x", "a")),
			"Breadcrumb":       errOf(tr.Breadcrumb(ctx, "x")),
			"Subtree":          errOf(tr.Subtree(ctx, "x", 0)),
			"Forest":           errOf(tr.Forest(ctx)),
			"CountChildren":    errOf(tr.CountChildren(ctx, "x")),
			"CountDescendants": errOf(tr.CountDescendants(ctx, "x", 0)),
			"AncestorsFilter":  errOf(tr.AncestorsFilter(ctx, "x")),
			"Insert":           errOf(tr.Insert(ctx, v.doc("x"), tr.Under("none"))),
			"Move":             tr.Move(ctx, "x", tr.AsRoot()),
			"Delete":           errOf(tr.Delete(ctx, "x", tree.Promote)),
			"Repair":           errOf(tr.Repair(ctx, nil)),
			"Adopt":            errOf(tr.Adopt(ctx, nil)),
			"Load":             errOf(tr.Load(ctx, entriesOf[string]("_id", node("y")), tr.AsRoot(), nil)),
			"EnsureIndexes":    tr.EnsureIndexes(ctx),
		} {
			if err == nil || !begin.MatchString(err.Error()) || strings.Contains(err.Error(), " tree: ") || !errors.Is(err, context.Canceled) {
				t.Errorf("%v, %s: %v", v.name, name, err)
			}
		}
	}
}

func TestInvalidArguments(t *testing.T) {
	ctx := t.Context()
	v := plain(tree.AncestorArray, tree.Options{})
	db := mongotest.Database(t)
	tr, other := v.open(t, db.Collection("nodes")), v.open(t, db.Collection("copy"))
	deep, work := -1, &mongopatterns.Work{BatchSize: -1}
	for what, err := range map[string]error{
		"adopt":              errOf(tr.Adopt(ctx, work)),
		"repair":             errOf(tr.Repair(ctx, work)),
		"check":              drain(tr.Check(ctx, work)),
		"convert a copy":     errOf(tree.Convert(ctx, tr, other, nil)),
		"load":               errOf(tr.Load(ctx, nil, tr.AsRoot(), work)),
		"load dry":           errOf(tr.Load(ctx, nil, tr.AsRoot(), &mongopatterns.Work{DryRun: true})),
		"load before":        errOf(tr.Load(ctx, nil, tr.Before("x"), nil)),
		"descendants":        drain(tr.Descendants(ctx, "x", deep)),
		"preorder":           drain(tr.Preorder(ctx, "x", deep)),
		"subtree":            errOf(tr.Subtree(ctx, "x", deep)),
		"descendants filter": errOf(tr.DescendantsFilter(ctx, "x", deep)),
		"count":              errOf(tr.CountDescendants(ctx, "x", deep)),
		"no names":           errOf(tr.FindOrCreate(ctx, nil, nil)),
		"string documents":   errOf(get(tree.New[string, string](db.Collection("x"), tree.AncestorArray, nil))(t).Insert(ctx, "x", tree.Position[string]{})),
	} {
		wrong(t, !errors.Is(err, mongopatterns.ErrInvalid), "%s: %v", what, err)
	}
	if got, err := tr.Load(ctx, nil, tr.AsRoot(), nil); err != nil || got.Examined != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestWorkFilter: Repair of one node.
func TestWorkFilter(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	v := plain(tree.AncestorArray, tree.Options{ChildCountField: "n"})
	tr := v.open(t, coll)
	insertAll(t, v, tr, books)
	for _, id := range []string{"dbm", "MongoDB"} {
		changeDoc(t, coll, id, dd("$set", dd("ancestors", bson.A{}, "n", 5)))
	}
	one := &mongopatterns.Work{Filter: bson.M{"_id": "dbm"}}
	if got := len(get(cursor.Collect(tr.Check(ctx, one)))(t)); got != 2 {
		t.Errorf("%d problems of one node", got)
	}
	got, err := tr.Repair(ctx, one)
	wrong(t, err != nil || got.Examined != 1 || got.Done != 1, "%+v, %v", got, err)
	if found := v.kinds(t, tr, coll); !slices.Equal(found, []string{"wrong field MongoDB"}) {
		t.Error(found)
	}
}

// TestBSONOptions: the tree encodes and decodes as the client does.
func TestBSONOptions(t *testing.T) {
	type tag struct {
		ID    string   `json:"_id"`
		Words []string `json:"words"`
	}
	bsonOptions := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	db := mongotest.Database(t, options.Client().SetBSONOptions(bsonOptions))
	tr := get(tree.New[string, tag](db.Collection("nodes"), tree.AncestorArray, &tree.Options{BSON: bsonOptions}))(t)
	get(tr.Insert(t.Context(), tag{ID: "a"}, tr.AsRoot()))(t)
	get(tr.Load(t.Context(), func(yield func(tree.Entry[string, tag], error) bool) {
		yield(tree.Entry[string, tag]{Value: tag{ID: "b"}}, nil)
	}, tr.Under("a"), nil))(t)
	want := []bson.D{dd("_id", "a", "words", bson.A{}, "ancestors", bson.A{}, "parent", nil),
		dd("_id", "b", "words", bson.A{}, "ancestors", bson.A{"a"}, "parent", "a")}
	match(t, "", want, stored(t, db.Collection("nodes")))
	if got, err := tr.Parent(t.Context(), "b"); err != nil || got.ID != "a" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestFindOrCreate follows a path, from several callers at once.
func TestFindOrCreate(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		v.opts.NameField = "title"
		tr = v.open(t, coll)
		made := func(name string) (bson.M, error) {
			doc := v.doc(bson.NewObjectID().Hex())
			doc["title"] = name
			return doc, nil
		}
		ids := make([]string, 4)
		var group sync.WaitGroup
		for i := range ids {
			group.Go(func() {
				var err error
				if ids[i], err = tr.FindOrCreate(ctx, []string{"a", "b", "a"}, made); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n, err := coll.CountDocuments(ctx, bson.D{}); n != 3 || err != nil || len(slices.Compact(ids)) != 1 {
			t.Fatalf("%d nodes, %v, %v", n, err, ids)
		}
		crumbs, err := tr.Breadcrumb(ctx, ids[0])
		wrong(t, err != nil || len(crumbs) != 3 || crumbs[1].Name != "b", "%v, %v", crumbs, err)
		got := mongotest.Record(t, coll.Database(), func() {
			if id, err := tr.FindOrCreate(ctx, []string{"a", "b"}, nil); err != nil || id != crumbs[1].ID {
				t.Errorf("%s, %v", id, err)
			}
		})
		wrong(t, got.RoundTrips() != 2, "%v", got.Names())
		boom := errors.New("boom")
		if _, err := tr.FindOrCreate(ctx, []string{"a", "c", "d"}, func(name string) (bson.M, error) {
			if name == "d" {
				return nil, boom
			}
			return made(name)
		}); !errors.Is(err, boom) {
			t.Error(err)
		}
		if n, err := coll.CountDocuments(ctx, bson.D{}); n != 3 || err != nil {
			t.Errorf("%d nodes, %v", n, err)
		}
		healthy(t, tr)
	})
}

// TestWaiters: those who wait for the lock look again soon, however long they have
// waited. A driver that pauses longer after each attempt has made about 14 in this
// time, and would then sleep for up to half a second.
func TestWaiters(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	v := plain(tree.AncestorArray, tree.Options{})
	tr := v.open(t, coll)
	insertAll(t, v, tr, [][2]string{{"A", ""}, {"B", ""}, {"C", ""}})
	var waiter sync.WaitGroup
	got := mongotest.Record(t, coll.Database(), func() {
		err := joined(t, coll, func(ctx context.Context) error {
			if err := tr.Move(ctx, "A", tr.Under("B")); err != nil {
				return err
			}
			waiter.Go(func() {
				good(t, tr.Move(t.Context(), "C", tr.Under("B")))
			})
			time.Sleep(2 * time.Second)
			return nil
		})
		wrong(t, err != nil, "%v", err)
		waiter.Wait()
	})
	attempts := 0
	for _, c := range got.Named("findAndModify") {
		if c.Collection == "nodes_locks" {
			attempts++
		}
	}
	wrong(t, attempts < 20, "%d attempts in 2 s", attempts)
	v.want(t, "children", v.ids(t, tr.Children(ctx, "B")), "A", "C")

	// At its deadline a waiter says what it waited for.
	err := joined(t, coll, func(ctx context.Context) error {
		if err := tr.Move(ctx, "A", tr.AsRoot()); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := tr.Move(short, "C", tr.AsRoot())
		if !errors.Is(err, context.DeadlineExceeded) || mongopatterns.ErrConflict == err {
			return fmt.Errorf("at the deadline: %w", err)
		}
		return nil
	})
	wrong(t, err != nil, "%v", err)
}

// TestRepeatedInsert: a second insertion of an ID is a duplicate key error, and leaves
// both documents and the parent as they were.
func TestRepeatedInsert(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		insertAll(t, v, tr, books)
		before := stored(t, coll)
		for _, parent := range []string{"Books", "Databases"} {
			if _, err := tr.Insert(t.Context(), v.doc("dbm"), tr.Under(parent)); !mongo.IsDuplicateKeyError(err) {
				t.Error(err)
			}
		}
		match(t, "", before, stored(t, coll))
	})
}

// TestPipelinesAreFresh: whoever changes a stage changes neither the Tree nor the next pipeline.
func TestPipelinesAreFresh(t *testing.T) {
	ctx := t.Context()
	var scribble func(v any)
	scribble = func(v any) {
		switch v := v.(type) {
		case bson.D:
			for i := range v {
				scribble(v[i].Value)
				v[i] = bson.E{Key: "$limit", Value: 1}
			}
		case bson.A:
			for i := range v {
				scribble(v[i])
				v[i] = nil
			}
		case mongo.Pipeline:
			for i := range v {
				scribble(v[i])
			}
		case []bson.D:
			scribble(mongo.Pipeline(v))
		}
	}
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		insertAll(t, v, tr, books)
		for name, make := range map[string]func() mongo.Pipeline{
			"Parent":      func() mongo.Pipeline { return tr.ParentPipeline("dbm") },
			"Children":    func() mongo.Pipeline { return tr.ChildrenPipeline("dbm") },
			"Siblings":    func() mongo.Pipeline { return tr.SiblingsPipeline("dbm") },
			"Ancestors":   func() mongo.Pipeline { return tr.AncestorsPipeline("dbm") },
			"Descendants": func() mongo.Pipeline { return tr.DescendantsPipeline("dbm", 2) },
			"Subtree":     func() mongo.Pipeline { return tr.SubtreePipeline("dbm", 0) },
			"Roots":       tr.RootsPipeline,
			"Leaves":      tr.LeavesPipeline,
			"Breadcrumb":  func() mongo.Pipeline { return tr.BreadcrumbPipeline("dbm") },
		} {
			p := make()
			before := get(bson.Marshal(dd("p", p)))(t)
			scribble(p)
			after := get(bson.Marshal(dd("p", make())))(t)
			wrong(t, !bytes.Equal(before, after), "%s: %s became %s", name, bson.Raw(before), bson.Raw(after))
		}
		crumbs, err := tr.Breadcrumb(ctx, "dbm")
		above, err2 := tr.Ancestors(ctx, "dbm")
		err = errors.Join(err, err2)
		wrong(t, err != nil || len(crumbs) != 4 || len(above) != 3, "%v, %v, %v", crumbs, above, err)
	})
}
