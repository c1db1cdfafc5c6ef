package extref_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

var examined = costs.Examined

// fields are the round trips by which Check sees that the targets and the copied fields exist.
const fields = 3 + 3

func TestCosts(t *testing.T) {
	t.Parallel()
	const copies, others = 30, 10
	const list, find, more, up, fam, del, commit = "listCollections", "find", "getMore", "update", "findAndModify", "delete", "commitTransaction"
	sends := slices.Concat[[]string]
	times := func(n int, names ...string) []string { return slices.Repeat(names, n) }
	scan := func(finds int) []string { return append([]string{list}, times(finds, find)...) }
	settled := []string{find, find, find, commit} // what sees at one moment that no target has a copy that is behind

	setUp := func(t *testing.T, o *extref.Options, change func(*extref.Target)) (*extref.Source[int, bson.D], *mongo.Database, []*mongo.Collection) {
		r, teams, colls := people(t, o, change)
		for id := range 2 {
			insert(t, teams, append(team(id, "a"), bson.E{Key: "version", Value: int64(1)}))
			n := copies
			if id == 1 {
				n = others
			}
			var single, many, flat []any
			for range n {
				single = append(single, d("team", ok[bson.D](t)(r.Copy("single.team", append(team(id, "a"), bson.E{Key: "version", Value: int64(1)})))))
				many = append(many, d("teams", bson.A{ok[bson.D](t)(r.Copy("many.teams", append(team(id, "a"), bson.E{Key: "version", Value: int64(1)})))}))
				flat = append(flat, ok[bson.D](t)(r.Copy("flat", append(team(id, "a"), bson.E{Key: "version", Value: int64(1)}))))
			}
			insert(t, colls[0], single...)
			insert(t, colls[1], many...)
			insert(t, colls[2], flat...)
		}
		return r, teams.Database(), colls
	}
	indexes := []string{"team._id_1_team.version_1", "teams.ref.id_1_teams.ref.v_1", "team_id_1_team_version_1"}
	update := func(r *extref.Source[int, bson.D], change any) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.ErrorOf(r.Update(ctx, 0, change)) }
	}
	propagate := func(r *extref.Source[int, bson.D], work *mongopatterns.Work) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.ErrorOf(r.Propagate(ctx, 0, work)) }
	}
	check := func(r *extref.Source[int, bson.D], work *mongopatterns.Work) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.Drain(r.Check(ctx, work)) }
	}
	adopt := func(r *extref.Source[int, bson.D], target string, work *mongopatterns.Work) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.ErrorOf(r.Adopt(ctx, target, work)) }
	}
	inTransaction := func(t *testing.T, db *mongo.Database, call func(ctx context.Context) error) func(ctx context.Context) error {
		return func(context.Context) error { return transaction(t, db, call) }
	}

	t.Run("versions", func(t *testing.T) {
		t.Parallel()
		r, db, colls := setUp(t, nil, nil)
		teams, fresh := db.Collection("teams"), db.Collection("fresh")
		unindexed, err := extref.New[int, bson.D](teams, []extref.Target{{Collection: fresh, Path: "x", Fields: []extref.Field{{Path: "name"}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		raise := func() { testkit.Update(t, teams, d("_id", 0), d("$inc", d("version", 1))) }
		var changed mongotest.Commands
		costs.Run(t, db, []costs.Case{
			{Name: "EnsureIndexes", Sends: []string{list, "listIndexes", "listIndexes", "listIndexes"}, Call: r.EnsureIndexes},
			{Name: "EnsureIndexes that creates one", Before: func() { insert(t, fresh, d()) },
				Sends: []string{list, "listIndexes", "createIndexes"}, Call: unindexed.EnsureIndexes},
			{Name: "Copy", Call: func(context.Context) error { return testkit.ErrorOf(r.Copy("flat", team(0, "a"))) }},
			{Name: "Fetch", Sends: []string{find}, Index: "_id_", Keys: 1, Docs: 1,
				Call: func(ctx context.Context) error { return testkit.ErrorOf(r.Fetch(ctx, "flat", 0)) }},
			{Name: "Pin", Sends: []string{up, find, commit}, Writes: 2, Index: "_id_", Keys: 1, Docs: 1,
				Call:  inTransaction(t, db, func(ctx context.Context) error { return testkit.ErrorOf(r.Pin(ctx, "flat", 0)) }),
				Check: func(cmds mongotest.Commands) { examined(t, db, cmds[1], "_id_", 1, 1) }},

			{Name: "Update of fields that are not copied", Sends: []string{fam}, Writes: 1, Index: "_id_", Keys: 1, Docs: 1,
				Call: update(r, d("$inc", d("visits", 1), "$set", d("place.street", "x")))},
			{Name: "Update that sets a copied field to what it is", Sends: []string{fam, fam, commit}, Writes: 1, Call: update(r, set("name", "a", "phone", 2))},
			{Name: "Update by a pipeline that changes no copied field", Sends: []string{fam, find, commit}, Writes: 1, Call: update(r, mongo.Pipeline{set("phone", 3)})},
			{Name: "Update", Sends: []string{fam, up, up, up, commit}, Writes: 1 + 3*copies, Index: "_id_", Keys: 1, Docs: 1,
				Call: update(r, set("name", "b")), Check: func(cmds mongotest.Commands) { changed = cmds }},
			{Name: "Update by a pipeline", Sends: []string{fam, find, fam, up, up, up, commit}, Writes: 2 + 3*copies,
				Call: update(r, mongo.Pipeline{set("name", "c'")})},

			{Name: "Propagate", Before: func() {
				testkit.Update(t, teams, d("_id", 0), d("$set", d("name", "d"), "$inc", d("version", 1)))
				// The plans of Update, now that there is as much to do again.
				for i, index := range indexes {
					examined(t, db, replaceVersion(t, changed[1+i], 5), index, copies+1, copies)
					examined(t, db, statement(t, changed[1+i], 1), index, copies+2, copies)
				}
			}, Sends: sends([]string{find, find, up, find, up, find, up}, settled), Writes: 3 * copies, Index: "_id_", Keys: 1, Docs: 1, Call: propagate(r, nil),
				Check: func(cmds mongotest.Commands) { examined(t, db, cmds[2], "_id_", copies+1, copies) }},
			{Name: "Propagate, nothing is behind", Sends: sends(times(4, find), settled), Call: propagate(r, nil), Check: func(cmds mongotest.Commands) {
				for i, index := range indexes { // no document is read
					examined(t, db, cmds[1+i], index, 2, 0)
					examined(t, db, cmds[4+i], index, 1, 0)
				}
			}},
			{Name: "Propagate in batches", Before: raise, Sends: sends([]string{find}, times(3, find, up, more, up, more, up), settled), Writes: 3 * copies,
				Call: propagate(r, &mongopatterns.Work{BatchSize: 10})},
			{Name: "Propagate in one batch that is full", Before: raise, Sends: sends([]string{find, find, up, find, up, find, up}, settled), Writes: 3 * copies,
				Call: propagate(r, &mongopatterns.Work{BatchSize: copies})},
			{Name: "Propagate in a transaction", Sends: []string{find, up, up, up, commit}, Call: inTransaction(t, db, propagate(r, nil))},
		})

		// Reads by Filter.
		for i, target := range []string{"single.team", "many.teams", "flat"} {
			filter := ok[bson.D](t)(r.Filter(target, 0))
			body := ok[[]byte](t)(bson.Marshal(d("find", colls[i].Name(), "filter", filter)))
			examined(t, db, mongotest.Command{Name: "find", Body: body}, indexes[i], copies+1, copies)
		}

		repair := func(ctx context.Context) error { return testkit.ErrorOf(r.Repair(ctx, nil)) }
		batch := []string{find, up, find, up, commit}
		costs.Run(t, db, []costs.Case{
			{Name: "Check", Sends: scan(6 + fields), Explain: 2, Index: "_id_", Keys: 3, Docs: 2, Call: check(r, nil)},
			{Name: "Repair, nothing is wrong", Sends: scan(6), Call: repair},
			{Name: "Check of one source", Sends: scan(7), Call: check(r, &mongopatterns.Work{Filter: d("_id", 1)}),
				Check: func(cmds mongotest.Commands) {
					for i, index := range indexes {
						examined(t, db, cmds[2+2*i], index, others+1, others)
					}
				}},
			{Name: "Check that finds", Before: func() { testkit.Update(t, colls[0], d("team._id", 1), set("team.version", 0)) },
				Sends: scan(7 + fields), Explain: 3, Index: "_id_", Keys: others + 1, Docs: others, Call: check(r, nil)},
			{Name: "Repair of copies that are behind", Sends: sends(scan(5), []string{up}, times(2, find), settled, times(4, find)), Writes: others,
				Call: repair},
			{Name: "Repair of copies that are ahead", Before: func() { testkit.Update(t, colls[0], d("team._id", 1), set("team.version", 9)) },
				Sends: sends(scan(2), []string{fam, find, up, find, up, find, up}, settled, times(4, find)), Writes: 1 + 3*others, Call: repair},
			{Name: "Repair of copies that are different", Before: func() { testkit.Update(t, teams, d("_id", 0), set("name", "e")) },
				Sends: sends(scan(3), []string{fam, find, up, find, up, find, up}, settled, times(4, find)), Writes: 1 + 3*copies, Call: repair},

			{Name: "Adopt, nothing to do", Sends: []string{list, find}, Call: adopt(r, "single.team", nil)},
			{Name: "Adopt", Before: func() { testkit.Update(t, colls[0], d(), d("$unset", d("team.version", "", "team.motto", ""))) },
				Sends: sends(scan(1), batch), Writes: 2*(copies+others) + 2*2, Call: adopt(r, "single.team", nil)},
			{Name: "Adopt in batches", Before: func() { testkit.Update(t, colls[0], d("team._id", 0), d("$unset", d("team.version", ""))) },
				Sends: sends(scan(1), batch, []string{more}, batch, []string{more}, batch), Writes: copies + 2*3,
				Explain: 3, Index: "_id_", Keys: 1, Docs: 1, Call: adopt(r, "single.team", &mongopatterns.Work{BatchSize: 10}),
				Check: func(cmds mongotest.Commands) {
					for i := range 2 { // frozen fields, followed ones
						examined(t, db, statement(t, cmds[5], i), "_id_", 11, 10)
					}
				}},
		})
	})

	t.Run("unversioned", func(t *testing.T) {
		t.Parallel()
		r, db, _ := setUp(t, nil, unversioned)
		twenties := &mongopatterns.Work{BatchSize: 20}
		costs.Run(t, db, []costs.Case{
			{Name: "Update of fields that are not copied", Sends: []string{fam}, Writes: 1, Call: update(r, set("phone", 1))},
			{Name: "Update", Sends: []string{fam, up, up, up, commit}, Writes: 1 + 3*copies,
				Explain: 1, Index: "team._id_1", Keys: copies + 1, Docs: copies, Call: update(r, set("name", "b")),
				Check: func(cmds mongotest.Commands) { examined(t, db, cmds[2], "teams.ref.id_1", copies+1, copies) }},
			{Name: "Propagate, nothing is different", Sends: sends(times(4, find), []string{find}, settled), Explain: 1, Index: "team._id_1", Keys: copies + 1, Docs: copies, Call: propagate(r, twenties)},
			{Name: "Propagate", Before: func() { testkit.Update(t, db.Collection("teams"), d("_id", 0), set("name", "c")) },
				Sends: sends([]string{find}, times(3, find, up, find, up, commit, more, up, find, up, commit), []string{find}, settled), Writes: 3*copies + 3*2*2, Call: propagate(r, twenties)},
			{Name: "Propagate in a transaction", Sends: []string{up, find, up, up, up, commit}, Writes: 2, Call: inTransaction(t, db, propagate(r, nil))},
			{Name: "Check", Sends: scan(6 + fields), Call: check(r, nil)},
			{Name: "Adopt, nothing to do", Sends: []string{list, find, find}, Call: adopt(r, "flat", nil)},
			{Name: "Check that finds", Before: func() { testkit.Update(t, db.Collection("single"), d("team._id", 1), set("team.name", "x")) },
				Sends: scan(8 + fields), Call: check(r, nil)},
		})
	})

	t.Run("outbox", func(t *testing.T) {
		t.Parallel()
		_, db, _ := setUp(t, nil, nil)
		names := func(o *extref.Options) *extref.Source[int, bson.D] {
			return ok[*extref.Source[int, bson.D]](t)(extref.New[int, bson.D](db.Collection("teams"), []extref.Target{{
				Collection: db.Collection("single"), Path: "team", Fields: []extref.Field{{Path: "name"}},
			}}, o))
		}
		r, deferred := names(&extref.Options{Outbox: db.Collection("outbox")}), names(&extref.Options{Deferred: true})
		costs.Run(t, db, []costs.Case{
			{Name: "EnsureIndexes", Sends: []string{list, "listIndexes", "createIndexes", "listIndexes"}, Call: r.EnsureIndexes},
			{Name: "Update", Sends: []string{fam, up, commit}, Writes: 2, Explain: 1, Index: "_id_", Keys: 1, Docs: 1, Call: update(r, set("name", "b"))},
			{Name: "Drain", Sends: []string{fam, find, find, up, del, fam}, Writes: 2 + copies, Explain: 4, Index: "_id_", Keys: 1, Docs: 1,
				Call: func(ctx context.Context) error { return testkit.ErrorOf(r.Drain(ctx, nil)) },
				Check: func(cmds mongotest.Commands) {
					var later []any
					for i := range 1000 {
						later = append(later, d("_id", -1-i, "due", time.Now().Add(time.Hour)))
					}
					insert(t, db.Collection("outbox"), later...)
					examined(t, db, cmds[5], "due_1", 1, 0)
					must(t)(nil, update(r, set("name", "c"))(t.Context()))
					examined(t, db, cmds[0], "due_1", 1, 1)
				}},
			{Name: "Update, deferred", Sends: []string{fam, commit}, Writes: 1, Call: update(deferred, set("name", "d"))},
		})
	})

	t.Run("delete", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct {
			name           string
			policy, arrays mongopatterns.DeletePolicy // of targets with one copy, and with an array of them
			copies         int64
			sends          []string
			writes         int
			planned        int // targets
		}{
			{"Keep", mongopatterns.Keep, mongopatterns.Keep, copies, []string{del, commit}, 1, 0},
			{"Unlink", mongopatterns.Unlink, mongopatterns.Unlink, copies, []string{del, up, up, up, commit}, 1 + 3*copies, 2},
			{"Restrict", mongopatterns.Restrict, mongopatterns.Restrict, 0, []string{del, find, find, find, commit}, 1, 1},
			{"Cascade, and Keep of arrays", mongopatterns.Cascade, mongopatterns.Keep, copies, []string{del, del, del, commit}, 1 + 2*copies, 1},
		} {
			r, db, colls := setUp(t, nil, func(target *extref.Target) {
				target.OnDelete = test.policy
				if target.Array {
					target.OnDelete = test.arrays
				}
			})
			if test.copies == 0 {
				for _, coll := range colls {
					must(t)(coll.DeleteMany(t.Context(), d()))
				}
			}
			costs.Run(t, db, []costs.Case{{Name: test.name, Sends: test.sends, Writes: test.writes, Index: "_id_", Keys: 1, Docs: 1,
				Call: func(ctx context.Context) error { return testkit.ErrorOf(r.Delete(ctx, 0)) },
				Check: func(cmds mongotest.Commands) {
					for i, index := range indexes[:test.planned] {
						examined(t, db, cmds[1+i], index, test.copies+1, test.copies)
					}
				}}})
		}
	})

	t.Run("watch", func(t *testing.T) {
		t.Parallel()
		r, db, _ := setUp(t, nil, nil)
		ready, applied := make(chan bool), make(chan bool, 10)
		stop := watching(t, r, db.Collection("tokens"), &extref.WatchOptions{
			MaxAwait:   time.Second,
			Reconciled: func(tally) { ready <- true }, Progress: func(tally) { applied <- true },
		})
		receive(t, ready)
		record := func(events int, update bson.D, want ...string) mongotest.Commands {
			t.Helper()
			cmds := mongotest.Record(t, db, func() {
				must(t)(db.Collection("teams").UpdateByID(t.Context(), 0, update))
				for range events {
					receive(t, applied)
				}
			})
			var sent []string
			for _, c := range cmds.Named("find", "update", "findAndModify") {
				sent = append(sent, c.Name+" "+c.Collection)
			}
			// The token of the reconciliation is saved while that records.
			if i := slices.Index(sent, "update tokens"); i == 0 || i == 1 && sent[0] == "update teams" {
				sent = slices.Delete(sent, i, i+1)
			}
			diff(t, want, sent)
			return cmds
		}
		look := []string{"find single", "find many", "find flat"}
		write := slices.Concat([]string{"find single", "update single", "find many", "update many", "find flat", "update flat"}, look, []string{"update tokens"})
		cmds := record(1, d("$set", d("name", "x"), "$inc", d("version", 1)),
			slices.Concat([]string{"update teams", "find teams"}, look, write)...)
		last := cmds.Named("update")
		examined(t, db, last[len(last)-1], "_id_", 1, 1)
		for i, c := range cmds.Named("find")[1:4] { // of copies that are not behind there are none
			examined(t, db, replaceVersion(t, c, 99), indexes[i], 1, 0)
		}
		// Without a higher version: its own raise is an event as well.
		record(2, d("$set", d("name", "y")), slices.Concat([]string{"update teams", "find teams",
			"find single", "find teams", "find single", "find many", "find teams", "find many", "find flat", "find teams", "find flat",
			"findAndModify teams"}, look, write, []string{"find teams"}, look, look, look, []string{"update tokens"})...)
		stop()
	})
}

// statement is an update command with one of its updates.
func statement(t *testing.T, c mongotest.Command, i int) mongotest.Command {
	t.Helper()
	var doc bson.D
	must(t)(nil, bson.Unmarshal(c.Body, &doc))
	for j, e := range doc {
		if e.Key == "updates" {
			doc[j].Value = e.Value.(bson.A)[i : i+1]
		}
	}
	c.Body = ok[[]byte](t)(bson.Marshal(doc))
	return c
}

// replaceVersion is a command with another version in its filters.
func replaceVersion(t *testing.T, c mongotest.Command, version int64) mongotest.Command {
	t.Helper()
	var doc bson.D
	must(t)(nil, bson.Unmarshal(c.Body, &doc))
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case bson.D:
			for i := range v {
				if slices.Contains([]string{"$lt", "$gt", "$gte"}, v[i].Key) {
					v[i].Value = version
				} else {
					walk(v[i].Value)
				}
			}
		case bson.A:
			for i := range v {
				walk(v[i])
			}
		}
	}
	walk(doc)
	c.Body = ok[[]byte](t)(bson.Marshal(doc))
	return c
}
