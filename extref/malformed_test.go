package extref_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A document of another shape than the target's is named, and neither unset, deleted
// nor completed; copies beside it are.
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
			ref := func(policy mongopatterns.DeletePolicy) *extref.Source[int, bson.D] {
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
			r := ref(mongopatterns.Restrict)
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
				for _, p := range testkit.Collect(t, r.Check(t.Context(), nil)) {
					if p.Kind != mongopatterns.Malformed || p.ID.AsInt64() != int64(len(got)+1) {
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
			for policy, want := range map[mongopatterns.DeletePolicy]tally{
				mongopatterns.Unlink: {Done: 1}, mongopatterns.Cascade: {Done: 1},
			} {
				if policy == mongopatterns.Cascade && test.target.Array {
					continue
				}
				add(test.copied)
				fails(t, mongopatterns.ErrReferenced)(r.Delete(t.Context(), 1))
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

// An ID that reads as an operator is not an ID, and does not keep others from being
// checked.
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

// A document whose copy has another shape is named by every call that reads it, and does not stop the others.
func TestMalformedHoldsUpNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		target extref.Target
		copied func(v int) bson.D
		bad    []bson.D
		field  string
	}{
		"array in place of a copy": {
			extref.Target{Path: "ref"},
			func(v int) bson.D { return d("ref", d("_id", 1, "name", "old", "version", v)) },
			[]bson.D{d("ref", bson.A{d("_id", 1, "name", "old", "version", 0)})}, "ref",
		},
		"string on the way": {
			extref.Target{Path: "ref", Fields: []extref.Field{{Path: "name", As: "shown.name"}}},
			func(v int) bson.D { return d("ref", d("_id", 1, "shown", d("name", "old"), "version", v)) },
			[]bson.D{d("ref", d("_id", 1, "shown", "old", "version", 0)), d("ref", d("_id", 1, "shown", nil, "version", 0))}, "ref.shown",
		},
		"array in an element": {
			extref.Target{Path: "items", Array: true, IDField: "product._id", VersionField: "product.version", Fields: []extref.Field{{Path: "name", As: "product.name"}}},
			func(v int) bson.D {
				return d("items", bson.A{d("product", d("_id", 1, "name", "old", "version", v)), d("product", 5)})
			},
			[]bson.D{d("items", bson.A{d("product", bson.A{d("_id", 1, "name", "old", "version", 0)})})}, "items.product",
		},
	} {
		for _, versions := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", versions), func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				source, holders := db.Collection("source"), db.Collection("holders")
				target := test.target
				target.Collection = holders
				if target.Fields == nil {
					target.Fields = []extref.Field{{Path: "name"}}
				}
				if !versions {
					unversioned(&target)
				}
				ref := func(o *extref.Options) *extref.Source[int, bson.D] {
					return newRef[int, bson.D](t, source, []extref.Target{target}, o)
				}
				insert(t, source, d("_id", 1, "name", "old"))
				n := int64(len(test.bad))
				for i := range 5 {
					insert(t, holders, append(d("_id", i), test.copied(0)...))
				}
				for i, doc := range test.bad {
					insert(t, holders, append(d("_id", 10+i), doc...))
				}
				named := func(r tally) {
					t.Helper()
					if r.Done != 5 || r.Failed != n || r.Failures[0].ID.AsInt64() != 10 || r.Failures[0].Collection != "holders" ||
						!strings.Contains(r.Failures[0].Err.Error(), "malformed: "+test.field) {
						t.Errorf("%+v", r)
					}
				}
				named(ok[extref.UpdateResult](t)(ref(nil).Update(t.Context(), 1, set("name", "one"))).Copies)
				ok[extref.UpdateResult](t)(ref(&extref.Options{Deferred: true}).Update(t.Context(), 1, set("name", "two")))
				named(ok[tally](t)(ref(nil).Propagate(t.Context(), 1, &mongopatterns.Work{BatchSize: 3})))
				boxed := ref(&extref.Options{Outbox: db.Collection("outbox")})
				ok[extref.UpdateResult](t)(boxed.Update(t.Context(), 1, set("name", "three")))
				named(ok[tally](t)(boxed.Drain(t.Context(), nil)))
			})
		}
	}
}

// A document that the server refuses, here because of a validator, does not stop the others.
func TestRefusedDocument(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, &extref.Options{Deferred: true}, change)
			insert(t, teams, team(1, "old"))
			ref := ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))
			for i := range 6 {
				insert(t, colls[0], d("_id", i, "team", ref, "closed", i == 2))
			}
			err := mongotest.Admin(t, teams.Database()).RunCommand(t.Context(), d("collMod", "single", "validator",
				d("$or", bson.A{d("closed", false), d("team.name", "old")}))).Err()
			if err != nil {
				t.Fatal(err)
			}
			ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "new")))
			result := ok[tally](t)(r.Propagate(t.Context(), 1, &mongopatterns.Work{BatchSize: 4}))
			if result.Failed != 1 || result.Failures[0].ID.AsInt64() != 2 || result.Done+result.Skipped != 5 {
				t.Errorf("%+v", result)
			}
			diff(t, 1, len(problems(t, r)))
		})
	}
}

// A source with an array on the way to a copied field is invalid: its copies keep
// their values.
func TestArrayOnTheWay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, nil, change)
			insert(t, teams, team(1, "one"), team(2, "two"))
			insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
			before, copies := stored(t, teams), stored(t, colls[0])
			refused := func(err error) {
				t.Helper()
				if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `_id 1: invalid: "place" is [`) {
					t.Error(err)
				}
			}
			bad := d("_id", 1, "name", "x", "place", bson.A{d("city", "Bonn")})
			refused(second(r.Copy("single.team", bad)))
			refused(second(r.Update(t.Context(), 1, replacement(bad))))
			refused(second(r.Update(t.Context(), 1, set("place", bson.A{}))))
			diff(t, before, stored(t, teams))
			must(t)(teams.UpdateByID(t.Context(), 1, set("place", bson.A{d("city", "Bonn")})))
			before = stored(t, teams)
			refused(second(r.Update(t.Context(), 1, set("name", "z"))))
			refused(second(r.Propagate(t.Context(), 1, nil)))
			diff(t, before, stored(t, teams))
			diff(t, copies, stored(t, colls[0]))
			diff(t, []string{`extref: single 1: malformed: place is [{"city": "Bonn"}]: copy of 1`}, problems(t, r))
		})
	}
}

// A value that cannot be a key is not a copy, in any target: it is named, and nothing matches by it.
func TestStrangeKeys(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]any{"pattern": bson.Regex{Pattern: "^"}, "operators": d("$gt", 0), "undefined": bson.Undefined{}, "array": bson.A{1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, nil, nil)
			insert(t, teams, team(1, "one"))
			insert(t, colls[0], d("_id", 1, "team", d("_id", odd, "name", "x", "version", 0)), d("_id", 2, "team", d("_id", odd)))
			insert(t, colls[1], d("_id", 1, "teams", bson.A{d("ref", d("id", odd)), d("ref", d("id", 1))}))
			insert(t, colls[2], d("_id", 1, "team_id", odd))
			before := stored(t, colls[0])
			if found := problems(t, r); len(found) < 4 {
				t.Error(found)
			}
			for _, target := range []string{"single.team", "many.teams", "flat"} {
				if result := ok[tally](t)(r.Adopt(t.Context(), target, nil)); result.Remaining == 0 && name != "undefined" || result.Done > 1 || result.Failed > 0 {
					t.Errorf("%s: %+v", target, result)
				}
			}
			if result := ok[tally](t)(r.Repair(t.Context(), nil)); result.Remaining != 4 {
				t.Errorf("%+v", result)
			}
			ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "new")))
			diff(t, before, stored(t, colls[0]))
			must(t)(colls[1].DeleteMany(t.Context(), d()))
			if _, err := r.Delete(t.Context(), 1); (name == "array") != errors.Is(err, mongopatterns.ErrReferenced) { // it holds the key
				t.Error(err)
			}
		})
	}
}
