package extref_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// What has another shape than the target says is told, and neither unset, deleted
// nor filled in; copies beside it are.
func TestMalformed(t *testing.T) {
	t.Parallel()
	version := func(doc bson.D, v any) bson.D { return append(doc, bson.E{Key: "version", Value: v}) }
	for name, test := range map[string]struct {
		target extref.Target
		copied bson.D   // a proper copy, behind
		fields []string // of the problems, in the order of docs
		docs   []bson.D // malformed
		also   []bson.D // nothing wrong, nothing to do
	}{
		"single": {
			target: extref.Target{Path: "ref"},
			copied: d("ref", version(d("_id", 1, "name", "old"), 0)),
			docs: []bson.D{
				d("ref", bson.A{version(d("_id", 1, "name", "old"), 0)}), d("ref", bson.A{}), d("ref", bson.A{nil}),
				d("ref", 1), d("ref", d("name", "old")), d("ref", version(d("_id", bson.A{1, 2}), 0)), d("ref", d("_id", nil, "version", 0)),
			},
			fields: []string{"ref", "ref", "ref", "ref", "ref._id", "ref._id", "ref._id"},
			also:   []bson.D{d("ref", nil), d("ref", d()), d("x", 1)},
		},
		"dotted": {
			target: extref.Target{Path: "a.ref", IDField: "to.id"},
			copied: d("a", d("ref", version(d("to", d("id", 1), "name", "old"), 0))),
			docs: []bson.D{
				d("a", bson.A{d("ref", version(d("to", d("id", 1)), 0)), d()}),
				d("a", d("ref", version(d("to", bson.A{d("id", 1)}), 0))),
				d("a", d("ref", d("to", 1))),
			},
			fields: []string{"a", "a.ref.to", "a.ref.to"},
			also:   []bson.D{d("a", bson.A{1}), d("a", bson.A{d("b", 1)}), d("a", 5)},
		},
		"array": {
			target: extref.Target{Path: "refs", Array: true, IDField: "to.id"},
			copied: d("refs", bson.A{version(d("to", d("id", 1), "name", "old"), 0)}),
			docs: []bson.D{
				d("refs", version(d("to", d("id", 1), "name", "old"), 0)), d("refs", 1), d("refs", bson.A{1, 2}),
				d("refs", bson.A{version(d("to", bson.A{d("id", 1)}), 0)}), d("refs", bson.A{d("to", 1)}),
				d("refs", bson.A{d("to", d("id", bson.A{1}))}), d("refs", bson.A{d("name", "old")}),
				d("refs", bson.A{version(d("to", d("id", bson.A{1})), 0)}),
			},
			fields: []string{"refs", "refs", "refs", "refs.to", "refs.to", "refs.to.id", "refs.to.id", "refs.to.id"},
			also:   []bson.D{d("refs", nil), d("refs", bson.A{}), d("refs", bson.A{nil, d(), d("other", 1)}), d("x", 1)},
		},
		"flat": {
			target: extref.Target{IDField: "ref.id"},
			copied: version(d("ref", d("id", 1), "name", "old"), 0),
			docs: []bson.D{
				version(d("ref", bson.A{d("id", 1)}, "name", "old"), 0), version(d("ref", d("id", bson.A{1, nil}), "name", "old"), 0),
			},
			fields: []string{"ref", "ref.id"},
			also:   []bson.D{d("name", "x"), d("ref", nil)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			source := db.Collection("source")
			ref := func(policy extref.DeletePolicy) *extref.Ref[int, bson.D] {
				target := test.target
				target.Collection, target.Name, target.OnDelete, target.Fields = db.Collection("holders"), "t", policy, []extref.Field{{Path: "name"}}
				return newRef[int, bson.D](t, source, []extref.Target{target}, nil)
			}
			holders := db.Collection("holders")
			id := 0
			add := func(doc bson.D) bson.D {
				id++
				doc = append(d("_id", id), doc...)
				insert(t, holders, doc)
				return doc
			}
			r := ref(extref.Refuse)
			insert(t, source, d("_id", 1, "name", "new", "version", 2))
			for _, doc := range test.docs {
				add(doc)
			}
			for _, doc := range test.also {
				add(doc)
			}
			before := stored(t, holders)
			check := func(fields []string) {
				t.Helper()
				var got []string
				for _, p := range collect(t, r.Check(t.Context(), nil)) {
					if p.Kind != extref.Malformed || p.ID.AsInt64() != int64(len(got)+1) {
						t.Error(p)
					}
					got = append(got, p.Field)
				}
				diff(t, fields, got)
			}
			check(test.fields)
			adopted := ok[tally](t)(r.Adopt(t.Context(), "t", nil))
			if adopted.Done != 0 {
				t.Errorf("%+v", adopted)
			}
			repaired := ok[tally](t)(r.Repair(t.Context(), nil))
			if repaired.Remaining != int64(len(test.docs)) || repaired.Done != 0 {
				t.Errorf("%+v", repaired)
			}
			diff(t, before, stored(t, holders))
			for policy, want := range map[extref.DeletePolicy]tally{
				extref.Unset: {Done: 1}, extref.Cascade: {Done: 1},
			} {
				if policy == extref.Cascade && test.target.Array {
					continue
				}
				add(test.copied)
				fails(t, extref.ErrReferenced)(r.Delete(t.Context(), 1))
				diff(t, want, ok[tally](t)(ref(policy).Delete(t.Context(), 1)))
				after := stored(t, holders)
				diff(t, before, after[:len(before)])
				must(t)(holders.DeleteOne(t.Context(), d("_id", id)))
				check(test.fields)
				insert(t, source, d("_id", 1, "name", "new", "version", 2))
			}
		})
	}
}

// Also where copies have no version, beside one that differs.
func TestMalformedUnversioned(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, unversioned)
	insert(t, teams, team(1, "one"))
	insert(t, colls[0], d("_id", 1, "team", 1), d("_id", 2, "team", d("_id", 1, "name", "x", "city", "Berlin")))
	diff(t, []string{
		`extref: single 1: malformed: team is 1`,
		`extref: single 2: different: team.name is "x", want "one": copy of 1`,
	}, problems(t, r))
}

// An ID that reads as an operator is none, and does not keep others from being
// looked at.
func TestOperatorAsID(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, append(team(1, "one"), bson.E{Key: "version", Value: 1}))
	insert(t, colls[0], d("_id", 1, "team", d("_id", d("$gt", 0), "version", 0)), d("_id", 2, "team", d("_id", 1, "version", 0)))
	diff(t, tally{Examined: 2, Done: 1, Remaining: 1}, ok[tally](t)(r.Repair(t.Context(), nil)))
	diff(t, []string{`extref: single 1: malformed: team._id is {"$gt": {"$numberInt":"0"}}`}, problems(t, r))
}

// A malformed element is named also beside a proper one of the same source.
func TestMalformedBesideProper(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	sources, carts := db.Collection("sources"), db.Collection("carts")
	r := newRef[int, bson.D](t, sources, []extref.Target{{
		Collection: carts, Path: "items", Array: true, IDField: "product._id", Unversioned: true,
		Fields: []extref.Field{{Path: "name", As: "product.name"}},
	}}, nil)
	insert(t, sources, d("_id", 5, "name", "a"))
	good := d("product", d("_id", 5, "name", "a"))
	insert(t, carts, d("_id", 1, "items", bson.A{good, d("product", bson.A{d("_id", 5, "name", "b")})}), d("_id", 2, "items", bson.A{good}))
	result := ok[tally](t)(r.Propagate(t.Context(), 5, nil))
	if result.Failed != 1 || len(result.Failures) != 1 || result.Failures[0].ID.AsInt64() != 1 {
		t.Error(result)
	}
}
