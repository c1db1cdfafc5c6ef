//go:build unix

package adoption_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// A trial makes calls on a document, until the test ends, and notes what they report.
type trial struct {
	*testing.T
	db   *mongo.Database
	told bool // a call has returned an error, or counted the document as Failed or Remaining, or Check has named it
}

func (t *trial) did(err error) { t.told = t.told || err != nil }

func (t *trial) ran(r mongopatterns.Result, err error) {
	t.told = t.told || err != nil || r.Failed+r.Remaining > 0
}

func (t *trial) looked(c mongopatterns.Checker) {
	for _, err := range c.Check(t.Context(), nil) {
		t.told = true
		testkit.OK(t, err)
	}
}

// A taken is a field that a pattern adds, in a document that already has a value of the user's in it.
type taken struct {
	name  string
	doc   bson.D // is stored in "c" with _id 1
	path  string // of the field, which gets the value
	value []any  // default: a text, a fraction, a document
	page  string // what docs/adopting.md says if the value is overwritten; else it must stay
	calls func(t *trial)
}

func takens() []taken {
	const ofTree = "all fields of tree but `ParentField`"
	nodes := func(rep tree.Representation, path, page string) taken {
		return taken{name: "tree/" + rep.String() + " " + path, doc: d("parent", nil), path: path, page: page, calls: func(t *trial) {
			tr, err := tree.New[int, bson.M](t.db.Collection("c"), rep, &tree.Options{ChildCountField: "n"})
			testkit.OK(t, err)
			testkit.OK(t, tr.EnsureIndexes(t.Context()))
			testkit.Insert(t, t.db.Collection("c"), d("_id", 2, "parent", 1))
			t.ran(tr.Adopt(t.Context(), nil))
			_, err = tr.Insert(t.Context(), bson.M{"_id": 3}, tr.Under(1))
			t.did(err)
			t.did(tr.Move(t.Context(), 1, tr.AsRoot()))
			t.ran(tr.Repair(t.Context(), nil))
			t.looked(tr)
		}}
	}
	list := func(path, page string, flag bool, value ...any) taken {
		doc := d("items", bson.A{1, 2, 3, 4})
		if flag {
			doc = append(doc, bson.E{Key: "items_overflow", Value: true})
		}
		return taken{name: fmt.Sprint("outlier ", path, " flagged ", flag), doc: doc, path: path, page: page, value: value, calls: func(t *trial) {
			for _, n := range []int{4, 2} {
				l, err := outlier.New[int, int](t.db.Collection("c"), t.db.Collection("extras"), &outlier.Options{MaxCount: n})
				testkit.OK(t, err)
				testkit.OK(t, l.EnsureIndexes(t.Context()))
				_, err = l.Add(t.Context(), 1, 5)
				t.did(err)
				_, err = l.Remove(t.Context(), 1, 5)
				t.did(err)
				t.ran(l.Adopt(t.Context(), nil))
				t.ran(l.Repair(t.Context(), nil))
				t.looked(l)
			}
		}}
	}
	items := func(path, page string, doc bson.D, value ...any) taken {
		return taken{name: "subset " + path, doc: doc, path: path, page: page, value: value, calls: func(t *trial) {
			s, err := subset.New[int, bson.M](t.db.Collection("c"), t.db.Collection("items"), nil)
			testkit.OK(t, err)
			testkit.OK(t, s.EnsureIndexes(t.Context()))
			t.ran(s.Adopt(t.Context(), nil))
			_, err = s.Insert(t.Context(), 1, bson.M{"_id": 12})
			t.did(err)
			t.did(s.Delete(t.Context(), 1, 12))
			t.ran(s.Repair(t.Context(), nil))
			t.looked(s)
		}}
	}
	values := func(path, page string) taken {
		return taken{name: fmt.Sprint("computed ", path, " ", page), path: path, page: page, calls: func(t *trial) {
			testkit.Insert(t, t.db.Collection("sources"), d("_id", 1, "of", 1, "n", 2))
			c, err := computed.New[int, int, bson.M](t.db.Collection("sources"), t.db.Collection("c"), computed.Rule{KeyField: "of", Empty: d("sum", 0),
				Pipeline: mongo.Pipeline{d("$group", d("_id", "$of", "sum", d("$sum", "$n")))}}, nil)
			testkit.OK(t, err)
			testkit.OK(t, c.EnsureIndexes(t.Context()))
			t.ran(c.Adopt(t.Context(), nil))
			t.ran(c.Repair(t.Context(), nil))
			t.looked(c)
			if page == "" {
				return
			}
			t.did(c.Insert(t.Context(), d("_id", 2, "of", 1, "n", 2)))
			t.did(c.Mark(t.Context(), 1))
			t.ran(c.Drain(t.Context(), nil))
			t.ran(c.Refresh(t.Context(), 1))
			t.ran(c.RefreshAll(t.Context(), nil))
			_, err = c.Get(t.Context(), 1, time.Nanosecond)
			t.did(err)
		}}
	}
	revision := func(path string) taken {
		return taken{name: "versioning " + path, path: path, calls: func(t *trial) {
			h, err := versioning.New[int, bson.M](t.db.Collection("c"), t.db.Collection("revisions"), nil)
			testkit.OK(t, err)
			testkit.OK(t, h.EnsureIndexes(t.Context()))
			t.ran(h.Adopt(t.Context(), nil, nil))
			_, err = h.Edit(t.Context(), 1, func(m *bson.M) error { (*m)["x"] = 2; return nil }, versioning.Change{})
			t.did(err)
			t.ran(h.Repair(t.Context(), nil))
			t.looked(h)
		}}
	}
	copies := func(path, page string) taken {
		return taken{name: "extref " + path, doc: d("name", "x", "source", 1), path: path, page: page, calls: func(t *trial) {
			both := t.db.Collection("c") // the source and the copy are one document
			s, err := extref.New[int, bson.M](both, []extref.Target{{Collection: both, IDField: "source", VersionField: "of",
				Fields: []extref.Field{{Path: "name", As: "copy"}}}}, nil)
			testkit.OK(t, err)
			testkit.OK(t, s.EnsureIndexes(t.Context()))
			t.ran(s.Adopt(t.Context(), "c", nil))
			_, err = s.Update(t.Context(), 1, d("$set", d("name", "y")))
			t.did(err)
			t.ran(s.Propagate(t.Context(), 1, nil))
			t.ran(s.Repair(t.Context(), nil))
			t.looked(s)
		}}
	}
	return []taken{
		nodes(tree.AncestorArray, "ancestors", ofTree),
		nodes(tree.NestedSets, "left", ofTree),
		nodes(tree.MaterializedPath, "path", ofTree),
		nodes(tree.ChildReferences, "children", ofTree),
		nodes(tree.AncestorArray, "n", ofTree),
		list("items_moved", "", false), list("items_outside", "", false, "Ulm", 7), list("items_moved", "", true), list("items_outside", "", true, "Ulm"),
		list("items_outside", "taken for the pattern's own", true, 7), list("items_overflow", "whatever is in `FlagField` of outlier", false),
		items("items_count", "the counts of subset", d("items", bson.A{d("_id", 11)})), items("items", "", bson.D{}),
		items("items.0.parent", "", d("items", bson.A{d("_id", 11)})),
		values("computed", ""), values("computed", "`StateField` of computed, which other calls overwrite"), values("sum", "the fields that computed computes"),
		revision("revision"), revision("change"),
		copies("version", ""), copies("of", ""), copies("copy", "overwrites copies with their sources"),
		{name: "attribute", doc: d("color", "red"), path: "attributes", calls: func(t *trial) {
			a, err := attribute.New[int, any](t.db.Collection("c"), nil)
			testkit.OK(t, err)
			testkit.OK(t, a.EnsureIndexes(t.Context()))
			t.ran(a.Adopt(t.Context(), []attribute.Column{{Path: "color", Key: "color"}}, nil))
			t.did(a.Set(t.Context(), 1, attribute.Named("size"), 5))
			t.did(a.Add(t.Context(), 1, attribute.Named("size"), 5))
			t.ran(a.RenameKey(t.Context(), "size", "length", nil))
			t.ran(a.Repair(t.Context(), nil))
			t.looked(a)
		}},
		{name: "prealloc", path: "cells", calls: func(t *trial) {
			g, err := prealloc.New[int, string](t.db.Collection("c"), nil)
			testkit.OK(t, err)
			seat := prealloc.At("A", "1")
			t.did(g.Insert(t.Context(), 1, nil, seat))
			t.did(g.Hold(t.Context(), 1, "ann", time.Minute, seat))
			t.did(g.Claim(t.Context(), 1, "ann", seat))
			t.did(g.Release(t.Context(), 1, "ann", seat))
			t.looked(g)
		}},
		{name: "approx", path: "count", value: []any{"Ulm", d("a", 1)}, calls: func(t *trial) {
			c, err := approx.New[int](t.db.Collection("c"), &approx.Options{Every: 1})
			testkit.OK(t, err)
			t.did(c.Add(t.Context(), 1, 1))
			t.ran(c.Flush(t.Context()))
		}},
		{name: "approx.Distinct", path: "distinct", value: []any{"Ulm", 2.5}, calls: func(t *trial) {
			c, err := approx.NewDistinct[int, string](t.db.Collection("c"), &approx.Options{Every: 1})
			testkit.OK(t, err)
			t.did(c.Add(t.Context(), 1, "x"))
			t.ran(c.Flush(t.Context()))
		}},
		{name: "archive", doc: d("closed", time.Unix(0, 0)), path: "archived_at", calls: func(t *trial) {
			a, err := archive.New(t.db.Collection("c"), t.db.Collection("archived"), &archive.Options{TimeField: "closed"})
			testkit.OK(t, err)
			testkit.OK(t, a.EnsureIndexes(t.Context()))
			t.ran(a.Move(t.Context(), a.BeforeFilter(time.Now()), nil))
			t.ran(a.Repair(t.Context(), nil))
			t.looked(a)
		}},
		{name: "relation", doc: d("children", bson.A{d("_id", 11)}), path: "children.0.owner", calls: func(t *trial) {
			r, err := relation.New[int, int, bson.M](t.db.Collection("c"), t.db.Collection("children"), &relation.Options{ChildrenField: "children", OwnerField: "owner"})
			testkit.OK(t, err)
			testkit.OK(t, r.EnsureIndexes(t.Context()))
			t.ran(r.Extract(t.Context(), nil))
			_, err = r.Insert(t.Context(), 1, bson.M{"_id": 12})
			t.did(err)
			t.did(r.Unlink(t.Context(), 1, 12))
			t.ran(r.Repair(t.Context(), nil))
			t.looked(r)
		}},
		{name: "schemaversion", path: "schema_version", value: []any{"Ulm", 2.5, nil, d("a", 1)}, calls: func(t *trial) {
			up := schemaversion.Step{Up: func(doc bson.D) (bson.D, error) { return append(doc, bson.E{Key: "new", Value: 1}), nil }}
			c, err := schemaversion.New[bson.M](t.db.Collection("c"), []schemaversion.Step{up}, &schemaversion.Options{WriteBack: true})
			testkit.OK(t, err)
			_, err = c.Get(t.Context(), 1)
			t.did(err)
			t.did(c.Update(t.Context(), 1, d("$set", d("x", 1))))
			t.ran(c.Migrate(t.Context(), 2, nil))
		}},
	}
}

// A value of the user's in a field that a pattern adds stays, whatever is called, and a call or Check tells of it, or the page
// says that it is overwritten.
func TestFieldsThatAreTaken(t *testing.T) {
	page, err := os.ReadFile("docs/adopting.md")
	testkit.OK(t, err)
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, x := range takens() {
		if x.value == nil {
			x.value = []any{"Ulm", 2.5, d("of", "ours")}
		}
		if !strings.Contains(text, x.page) {
			t.Errorf("%s: the page does not say %q", x.name, x.page)
		}
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			for _, value := range x.value {
				t.Run(fmt.Sprint(value), func(t *testing.T) {
					testkit.Empty(t, db)
					trial, coll := &trial{T: t, db: db}, db.Collection("c")
					testkit.Insert(t, coll, append(d("_id", 1), x.doc...))
					testkit.Update(t, coll, bson.D{}, d("$set", d(x.path, value)))
					is := func() bson.RawValue {
						v, err := testkit.One[bson.Raw](t, coll, 1).LookupErr(strings.Split(x.path, ".")...)
						testkit.OK(t, err)
						return v
					}
					before := is()
					x.calls(trial)
					if x.page != "" {
						return
					}
					if after := is(); !before.Equal(after) {
						t.Errorf("%v became %v", before, after)
					}
					if !trial.told {
						t.Error("nobody tells of it")
					}
				})
			}
		})
	}
}
