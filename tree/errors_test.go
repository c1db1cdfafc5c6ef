package tree_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// TestErrorsNameTheCall: every error begins with the package, once, and the call.
func TestErrorsNameTheCall(t *testing.T) {
	t.Parallel()
	row := rows(t)
	begin := regexp.MustCompile(`^tree: [a-z ]+: `)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, v := range variants()[:5] {
		tr := v.open(t, row())
		for name, err := range map[string]error{
			"Children":         drain(tr.Children(ctx, "x")),
			"Siblings":         drain(tr.Siblings(ctx, "x")),
			"Descendants":      drain(tr.Descendants(ctx, "x", 0)),
			"Preorder":         drain(tr.Preorder(ctx, "x", 0)),
			"Roots":            drain(tr.Roots(ctx)),
			"Leaves":           drain(tr.Leaves(ctx)),
			"Dump":             drain(tr.Dump(ctx)),
			"Check":            drain(tr.Check(ctx, nil)),
			"Ancestors":        errOf(tr.Ancestors(ctx, "x")),
			"Parent":           errOf(tr.Parent(ctx, "x")),
			"IsDescendant":     errOf(tr.IsDescendant(ctx, "x", "a")),
			"Breadcrumb":       errOf(tr.Breadcrumb(ctx, "x")),
			"Subtree":          errOf(tr.Subtree(ctx, "x", 0)),
			"Forest":           errOf(tr.Forest(ctx)),
			"CountDescendants": errOf(tr.CountDescendants(ctx, "x", 0)),
			"AncestorsFilter":  errOf(tr.AncestorsFilter(ctx, "x")),
			"Insert":           errOf(tr.Insert(ctx, v.doc("x"), tr.Under("none"))),
			"Move":             tr.Move(ctx, "x", tr.AsRoot()),
			"Delete":           errOf(tr.Delete(ctx, "x", mongopatterns.Promote)),
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
	t.Parallel()
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
		"convert to itself":  errOf(tree.Convert(ctx, tr, tr, nil)),
		"load":               errOf(tr.Load(ctx, nil, tr.AsRoot(), work)),
		"load dry":           errOf(tr.Load(ctx, nil, tr.AsRoot(), &mongopatterns.Work{DryRun: true})),
		"load before":        errOf(tr.Load(ctx, nil, tr.Before("x"), nil)),
		"descendants":        drain(tr.Descendants(ctx, "x", deep)),
		"preorder":           drain(tr.Preorder(ctx, "x", deep)),
		"subtree":            errOf(tr.Subtree(ctx, "x", deep)),
		"descendants filter": errOf(tr.DescendantsFilter(ctx, "x", deep)),
		"count":              errOf(tr.CountDescendants(ctx, "x", deep)),
		"no names":           errOf(tr.FindOrInsert(ctx, nil, nil)),
		"string documents":   errOf(get(tree.New[string, any](db.Collection("x"), tree.AncestorArray, nil))(t).Insert(ctx, "x", tree.Position[string]{})),
	} {
		wrong(t, !errors.Is(err, mongopatterns.ErrInvalid), "%s: %v", what, err)
	}
	if got, err := tr.Load(ctx, nil, tr.AsRoot(), nil); err != nil || got.Examined != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		insertAll(t, v, tr, books)
		before := stored(t, coll)
		fails := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) || !strings.HasPrefix(fmt.Sprint(err), "tree: ") {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		insert := func(id string, pos tree.Position[string]) error {
			_, err := tr.Insert(ctx, v.doc(id), pos)
			return err
		}
		fails("insert under nothing", insert("x", tr.Under("none")), mongopatterns.ErrNoParent)
		fails("the same", insert("x", tr.Under("none")), mongo.ErrNoDocuments)
		fails("insert twice", insert("dbm", tr.Under("Books")), mongopatterns.ErrExists)
		fails("insert twice under its parent", insert("dbm", tr.Under("Databases")), mongopatterns.ErrExists)
		wrong(t, !mongo.IsDuplicateKeyError(insert("dbm", tr.Under("Books"))), "insert twice: not the error of the server")
		fails("insert twice, as a root", insert("dbm", tr.AsRoot()), mongopatterns.ErrExists)
		fails("move nothing", tr.Move(ctx, "none", tr.AsRoot()), mongopatterns.ErrNotFound)
		fails("move under nothing", tr.Move(ctx, "dbm", tr.Under("none")), mongopatterns.ErrNoParent)
		fails("move under itself", tr.Move(ctx, "Books", tr.Under("Books")), tree.ErrCycle)
		fails("move under its child", tr.Move(ctx, "Books", tr.Under("Programming")), tree.ErrCycle)
		fails("move under its descendant", tr.Move(ctx, "Books", tr.Under("dbm")), tree.ErrCycle)
		_, err := tr.Delete(ctx, "none", mongopatterns.Cascade)
		fails("delete nothing", err, mongopatterns.ErrNotFound)
		_, err = tr.Delete(ctx, "Books", mongopatterns.Restrict)
		fails("delete a parent", err, mongopatterns.ErrReferenced)
		if _, err := tr.Delete(ctx, "Books", 9); err == nil {
			t.Error("unknown policy")
		}
		for what, pos := range map[string]tree.Position[string]{"before": tr.Before("dbm"), "after": tr.After("dbm"), "first": tr.Under("Books").First()} {
			if v.ordered {
				continue
			}
			fails(what+" insert", insert("x", pos), mongopatterns.ErrInvalid)
			fails(what+" move", tr.Move(ctx, "MongoDB", pos), mongopatterns.ErrInvalid)
		}
		if v.ordered {
			fails("before nothing", insert("x", tr.Before("none")), mongopatterns.ErrNotFound)
			fails("before its child", tr.Move(ctx, "Books", tr.Before("dbm")), tree.ErrCycle)
			fails("after its child", tr.Move(ctx, "Books", tr.After("Programming")), tree.ErrCycle)
			if err := tr.Move(ctx, "dbm", tr.After("dbm")); err != nil {
				t.Errorf("move after itself: %v", err)
			}
		}
		if v.rep == tree.ChildReferences {
			fails("roots in order", insert("x", tr.AsRoot().First()), mongopatterns.ErrInvalid)
			fails("roots in order", insert("x", tr.Before("Books")), mongopatterns.ErrInvalid)
			fails("link in a tree", tr.Link(ctx, "Books", "dbm"), mongopatterns.ErrInvalid)
			fails("unlink in a tree", tr.Unlink(ctx, "Databases", "dbm"), mongopatterns.ErrInvalid)
		}
		match(t, "refused writes changed documents", before, stored(t, coll))
	})
}

// TestUnknownID: an ID that no node has is answered alike in all representations. What asks for the node itself, or
// for those above it, is ErrNotFound; a set of nodes beside or below it is empty; nothing is written.
func TestUnknownID(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		insertAll(t, v, tr, books)
		before := stored(t, coll)
		for name, err := range map[string]error{
			"Parent":          errOf(tr.Parent(ctx, "none")),
			"Ancestors":       errOf(tr.Ancestors(ctx, "none")),
			"Breadcrumb":      errOf(tr.Breadcrumb(ctx, "none")),
			"IsDescendant":    errOf(tr.IsDescendant(ctx, "none", "Books")),
			"AncestorsFilter": errOf(tr.AncestorsFilter(ctx, "none")),
			"Subtree":         errOf(tr.Subtree(ctx, "none", 0)),
			"Subtree to 1":    errOf(tr.Subtree(ctx, "none", 1)),
			"Move":            tr.Move(ctx, "none", tr.AsRoot()),
			"Move under":      tr.Move(ctx, "none", tr.Under("Books")),
			"Restrict":        errOf(tr.Delete(ctx, "none", mongopatterns.Restrict)),
			"Cascade":         errOf(tr.Delete(ctx, "none", mongopatterns.Cascade)),
			"Promote":         errOf(tr.Delete(ctx, "none", mongopatterns.Promote)),
			"MakeRoots":       errOf(tr.Delete(ctx, "none", mongopatterns.Unlink)),
		} {
			wrong(t, !errors.Is(err, mongopatterns.ErrNotFound) || errors.Is(err, mongopatterns.ErrNoParent), "%s: %v", name, err)
		}
		for name, err := range map[string]error{
			"Insert under": errOf(tr.Insert(ctx, v.doc("x"), tr.Under("none"))),
			"Move under":   tr.Move(ctx, "dbm", tr.Under("none")),
			"Load":         errOf(tr.Load(ctx, v.entries([][2]string{{"x", "none"}}), tr.AsRoot(), nil)),
			"Load under":   errOf(tr.Load(ctx, v.entries([][2]string{{"x", ""}}), tr.Under("none"), nil)),
		} {
			wrong(t, !errors.Is(err, mongopatterns.ErrNoParent), "%s: %v", name, err)
		}
		for name, docs := range map[string]iter.Seq2[bson.M, error]{
			"Parents":          tr.Parents(ctx, "none"),
			"Children":         tr.Children(ctx, "none"),
			"Siblings":         tr.Siblings(ctx, "none"),
			"Descendants":      tr.Descendants(ctx, "none", 0),
			"Descendants to 1": tr.Descendants(ctx, "none", 1),
			"Preorder":         tr.Preorder(ctx, "none", 0),
		} {
			match(t, name, []string{}, v.ids(t, docs))
		}
		for name, p := range map[string]mongo.Pipeline{
			"ChildrenPipeline":    tr.ChildrenPipeline("none"),
			"AncestorsPipeline":   tr.AncestorsPipeline("none"),
			"DescendantsPipeline": tr.DescendantsPipeline("none", 0),
			"SubtreePipeline":     tr.SubtreePipeline("none", 0),
		} {
			wrong(t, get(coll.Aggregate(ctx, p))(t).Next(ctx), "%s: not empty", name)
		}
		for depth := range 2 {
			if n, err := tr.CountDescendants(ctx, "none", depth); n != 0 || err != nil {
				t.Errorf("CountDescendants to %d: %d, %v", depth, n, err)
			}
			if docs, err := find(ctx, coll, get(tr.DescendantsFilter(ctx, "none", depth))(t)); len(docs) > 0 || err != nil {
				t.Errorf("DescendantsFilter to %d: %v, %v", depth, docs, err)
			}
		}
		if docs, err := find(ctx, coll, get(tr.ChildrenFilter(ctx, "none"))(t)); len(docs) > 0 || err != nil {
			t.Errorf("ChildrenFilter: %v, %v", docs, err)
		}
		if is, err := tr.IsDescendant(ctx, "dbm", "none"); is || err != nil {
			t.Errorf("IsDescendant of none: %v, %v", is, err)
		}
		if v.ordered {
			for _, err := range []error{tr.Move(ctx, "dbm", tr.Before("none")), errOf(tr.Insert(ctx, v.doc("x"), tr.After("none")))} {
				wrong(t, !errors.Is(err, mongopatterns.ErrNotFound) || errors.Is(err, mongopatterns.ErrNoParent), "beside none: %v", err)
			}
		}
		if v.opts.SegmentField != "" {
			is(t, tr.Rename(ctx, "none", "x"), mongopatterns.ErrNotFound)
		}
		match(t, "stored", before, stored(t, coll))
	})
}
