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
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

var record = costs.Record

// examined wants a plan by this index that looks at no more than these.
func examined(t *testing.T, db *mongo.Database, c mongotest.Command, index string, keys, docs int64) {
	t.Helper()
	plan := mongotest.Explain(t, db, c.Body)
	plan.RequireIndex(t, index)
	plan.RequireExamined(t, keys, docs)
}

func TestCosts(t *testing.T) {
	t.Parallel()
	const copies, others = 30, 10
	names := func(lists ...[]string) []string { return slices.Concat(lists...) }
	one := func(name string, n int) []string { return slices.Repeat([]string{name}, n) }
	commit := one("commitTransaction", 1)

	setUp := func(t *testing.T, o *extref.Options, change func(*extref.Target)) (*extref.Ref[int, bson.D], *mongo.Database, []*mongo.Collection) {
		r, teams, colls := people(t, o, change)
		for id := range 2 {
			insert(t, teams, append(team(id, "a"), bson.E{Key: "version", Value: int64(1)}))
			n := copies
			if id == 1 {
				n = others
			}
			var single, many, flat []any
			for range n {
				single = append(single, d("team", ok[bson.D](t)(r.Reference("single.team", append(team(id, "a"), bson.E{Key: "version", Value: int64(1)})))))
				many = append(many, d("teams", bson.A{ok[bson.D](t)(r.Reference("many.teams", append(team(id, "a"), bson.E{Key: "version", Value: int64(1)})))}))
				flat = append(flat, ok[bson.D](t)(r.Reference("flat", append(team(id, "a"), bson.E{Key: "version", Value: int64(1)}))))
			}
			insert(t, colls[0], single...)
			insert(t, colls[1], many...)
			insert(t, colls[2], flat...)
		}
		return r, teams.Database(), colls
	}
	versions := []struct{ index, path string }{
		{"team._id_1_team.version_1", "team._id"}, {"teams.ref.id_1_teams.ref.v_1", "teams"}, {"team_id_1_team_version_1", "team_id"},
	}
	update := func(r *extref.Ref[int, bson.D], name string) func() error {
		return func() error { _, err := r.Update(t.Context(), 0, set("name", name)); return err }
	}

	t.Run("versions", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		r, db, colls := setUp(t, nil, nil)
		record(t, db, 0, names(one("listCollections", 1), one("listIndexes", 3)), func() error { return r.EnsureIndexes(ctx) })
		fresh := db.Collection("fresh")
		must(t)(fresh.InsertOne(ctx, d()))
		bare, err := extref.New[int, bson.D](db.Collection("teams"), []extref.Target{{Collection: fresh, Path: "x", Fields: []extref.Field{{Path: "name"}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		record(t, db, 0, []string{"listCollections", "listIndexes", "createIndexes"}, func() error { return bare.EnsureIndexes(ctx) })
		record(t, db, 0, nil, func() error { _, err := r.Reference("flat", team(0, "a")); return err })
		cmds := record(t, db, 0, one("find", 1), func() error { _, err := r.Fetch(ctx, "flat", 0); return err })
		examined(t, db, cmds[0], "_id_", 1, 1)
		cmds = record(t, db, 2, []string{"update", "find", "commitTransaction"}, func() error {
			return transaction(t, db, func(ctx context.Context) error { _, err := r.Pin(ctx, "flat", 0); return err })
		})
		examined(t, db, statement(t, cmds[0], 0), "_id_", 1, 1)
		examined(t, db, cmds[1], "_id_", 1, 1)

		call := func(update any) func() error {
			return func() error { _, err := r.Update(ctx, 0, update); return err }
		}
		cmds = record(t, db, 1, one("findAndModify", 1), call(d("$inc", d("visits", 1), "$set", d("place.street", "x"))))
		examined(t, db, cmds[0], "_id_", 1, 1)
		record(t, db, 1, []string{"findAndModify", "findAndModify", "commitTransaction"}, call(set("name", "a", "phone", 2)))
		record(t, db, 1, []string{"findAndModify", "find", "commitTransaction"}, call(mongo.Pipeline{set("phone", 3)}))
		changed := names(one("findAndModify", 1), one("update", 3), commit)
		cmds = record(t, db, 1+3*copies, changed, update(r, "b"))
		examined(t, db, cmds[0], "_id_", 1, 1)
		record(t, db, 2+3*copies, names([]string{"findAndModify", "find", "findAndModify"}, one("update", 3), commit), call(mongo.Pipeline{set("name", "c'")}))
		// The plans of the next one, which has as much to do.
		must(t)(db.Collection("teams").UpdateByID(ctx, 0, d("$set", d("name", "d"), "$inc", d("version", 1))))
		for i, v := range versions {
			c := replaceVersion(t, cmds[1+i], 5)
			examined(t, db, statement(t, c, 0), v.index, copies+1, copies)
			examined(t, db, statement(t, cmds[1+i], 1), v.index, copies+2, copies)
		}
		propagate := func(o *mongopatterns.Work) func() error {
			return func() error { _, err := r.Propagate(ctx, 0, o); return err }
		}
		cmds = record(t, db, 3*copies, names(one("find", 1), []string{"find", "update", "find", "update", "find", "update"}), propagate(nil))
		examined(t, db, cmds[0], "_id_", 1, 1)
		examined(t, db, cmds[2], "_id_", copies+1, copies)
		cmds = record(t, db, 0, one("find", 4), propagate(nil))
		for i, v := range versions { // nothing is behind: nothing is read
			examined(t, db, cmds[1+i], v.index, 2, 0)
		}
		// In batches of 10, and just one that is full.
		must(t)(db.Collection("teams").UpdateByID(ctx, 0, d("$inc", d("version", 1))))
		batches := []string{"find", "update", "getMore", "update", "getMore", "update"}
		record(t, db, 3*copies, names(one("find", 1), batches, batches, batches), propagate(&mongopatterns.Work{BatchSize: 10}))
		must(t)(db.Collection("teams").UpdateByID(ctx, 0, d("$inc", d("version", 1))))
		single := []string{"find", "update"}
		record(t, db, 3*copies, names(one("find", 1), single, single, single), propagate(&mongopatterns.Work{BatchSize: copies}))
		record(t, db, 0, names(one("find", 1), one("update", 3), commit), func() error {
			return transaction(t, db, func(ctx context.Context) error { _, err := r.Propagate(ctx, 0, nil); return err })
		})

		// Reads and maintenance.
		for i, target := range []string{"single.team", "many.teams", "flat"} {
			filter := ok[bson.D](t)(r.Filter(target, 0))
			body := ok[[]byte](t)(bson.Marshal(d("find", colls[i].Name(), "filter", filter)))
			examined(t, db, mongotest.Command{Name: "find", Body: body}, versions[i].index, copies+1, copies)
		}
		cmds = record(t, db, 0, names(one("listCollections", 1), one("find", 6)), func() error { collect(t, r.Check(ctx, nil)); return nil })
		examined(t, db, cmds[2], "_id_", 3, 2)
		record(t, db, 0, names(one("listCollections", 1), one("find", 6)), func() error { _, err := r.Repair(ctx, nil); return err })
		cmds = record(t, db, 0, names(one("listCollections", 1), one("find", 7)), func() error {
			collect(t, r.Check(ctx, &mongopatterns.Work{Filter: d("_id", 1)}))
			return nil
		})
		for i, v := range versions {
			examined(t, db, cmds[2+2*i], v.index, others+1, others)
		}
		must(t)(colls[0].UpdateMany(ctx, d("team._id", 1), set("team.version", 0)))
		cmds = record(t, db, 0, names(one("listCollections", 1), one("find", 7)), func() error { collect(t, r.Check(ctx, nil)); return nil })
		examined(t, db, cmds[3], "_id_", others+1, others)
		record(t, db, others, names(one("listCollections", 1), one("find", 3), []string{"find", "find", "update", "find", "find"}, one("find", 4)), func() error { _, err := r.Repair(ctx, nil); return err })
		must(t)(colls[0].UpdateMany(ctx, d("team._id", 1), set("team.version", 9)))
		record(t, db, 1+3*others, names(one("listCollections", 1), one("find", 2), one("findAndModify", 1), single, single, single, one("find", 4)),
			func() error { _, err := r.Repair(ctx, nil); return err })
		must(t)(db.Collection("teams").UpdateByID(ctx, 0, set("name", "e")))
		record(t, db, 1+3*copies, names(one("listCollections", 1), one("find", 3), one("findAndModify", 1), single, single, single, one("find", 4)),
			func() error { _, err := r.Repair(ctx, nil); return err })
		adopt := func(size int) func() error {
			return func() error {
				_, err := r.Adopt(ctx, "single.team", &mongopatterns.Work{BatchSize: size})
				return err
			}
		}
		record(t, db, 0, names(one("listCollections", 1), one("find", 1)), adopt(0))
		must(t)(colls[0].UpdateMany(ctx, d(), d("$unset", d("team.version", "", "team.motto", ""))))
		batch := []string{"find", "update", "find", "update", "commitTransaction"}
		record(t, db, 2*(copies+others)+2*2, names(one("listCollections", 1), one("find", 1), batch), adopt(0))
		must(t)(colls[0].UpdateMany(ctx, d("team._id", 0), d("$unset", d("team.version", ""))))
		cmds = record(t, db, copies+2*3, names([]string{"listCollections", "find"}, batch, []string{"getMore"}, batch, []string{"getMore"}, batch), adopt(10))
		examined(t, db, statement(t, cmds[3], 0), "_id_", 1, 1)
		for i := range 2 { // frozen fields, followed ones
			examined(t, db, statement(t, cmds[5], i), "_id_", 11, 10)
		}
	})

	t.Run("unversioned", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		r, db, _ := setUp(t, nil, unversioned)
		record(t, db, 1, one("findAndModify", 1), func() error { _, err := r.Update(ctx, 0, set("phone", 1)); return err })
		cmds := record(t, db, 1+3*copies, names(one("findAndModify", 1), one("update", 3), commit), update(r, "b"))
		examined(t, db, statement(t, cmds[1], 0), "team._id_1", copies+1, copies)
		examined(t, db, statement(t, cmds[2], 0), "teams.ref.id_1", copies+1, copies)
		propagate := func() error {
			_, err := r.Propagate(ctx, 0, &mongopatterns.Work{BatchSize: 20})
			return err
		}
		cmds = record(t, db, 0, one("find", 4), propagate)
		examined(t, db, cmds[1], "team._id_1", copies+1, copies)
		must(t)(db.Collection("teams").UpdateByID(ctx, 0, set("name", "c")))
		batch := []string{"update", "find", "update", "commitTransaction"}
		all := names(one("find", 1), batch, one("getMore", 1), batch)
		record(t, db, 3*copies+3*2*2, names(one("find", 1), all, all, all), propagate)
		record(t, db, 2, names([]string{"update", "find"}, one("update", 3), commit), func() error {
			return transaction(t, db, func(ctx context.Context) error { _, err := r.Propagate(ctx, 0, nil); return err })
		})
		record(t, db, 0, names(one("listCollections", 1), one("find", 6)), func() error { collect(t, r.Check(ctx, nil)); return nil })
		record(t, db, 0, names(one("listCollections", 1), one("find", 2)), func() error { _, err := r.Adopt(ctx, "flat", nil); return err })
		must(t)(db.Collection("single").UpdateMany(ctx, d("team._id", 1), set("team.name", "x")))
		record(t, db, 0, names(one("listCollections", 1), one("find", 8)), func() error { collect(t, r.Check(ctx, nil)); return nil })
	})

	t.Run("outbox", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		_, db, _ := setUp(t, nil, nil)
		outbox := db.Collection("outbox")
		r, err := extref.New[int, bson.D](db.Collection("teams"), []extref.Target{{
			Collection: db.Collection("single"), Path: "team", Fields: []extref.Field{{Path: "name"}},
		}}, &extref.Options{Outbox: outbox})
		if err != nil {
			t.Fatal(err)
		}
		record(t, db, 0, []string{"listCollections", "listIndexes", "createIndexes", "listIndexes"}, func() error { return r.EnsureIndexes(ctx) })
		boxed := []string{"findAndModify", "update", "commitTransaction"}
		cmds := record(t, db, 2, boxed, update(r, "b"))
		examined(t, db, cmds[1], "_id_", 1, 1)
		cmds = record(t, db, 2+copies, []string{"findAndModify", "find", "find", "update", "delete", "findAndModify"},
			func() error { _, err := r.Drain(ctx, nil); return err })
		due := cmds[0]
		must(t)(nil, update(r, "c")())
		var body bson.D
		must(t)(nil, bson.Unmarshal(due.Body, &body))
		query := d("find", "outbox", "filter", d("due", d("$lte", time.Now())), "sort", d("due", 1))
		diff(t, "due", lookupD(body, "query").(bson.D)[0].Key)
		diff(t, d("due", i32(1)), lookupD(body, "sort"))
		examined(t, db, mongotest.Command{Name: "find", Body: ok[[]byte](t)(bson.Marshal(query))}, "due_1", 1, 1)
		examined(t, db, cmds[4], "_id_", 1, 1)

		deferred, err := extref.New[int, bson.D](db.Collection("teams"), []extref.Target{{
			Collection: db.Collection("single"), Path: "team", Fields: []extref.Field{{Path: "name"}},
		}}, &extref.Options{Deferred: true})
		if err != nil {
			t.Fatal(err)
		}
		record(t, db, 1, []string{"findAndModify", "commitTransaction"}, update(deferred, "d"))
	})

	t.Run("delete", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		for policy, want := range map[extref.DeletePolicy]struct {
			names   []string
			written int
		}{
			extref.Keep:   {[]string{"delete", "commitTransaction"}, 1},
			extref.Unset:  {[]string{"delete", "update", "update", "update", "commitTransaction"}, 1 + 3*copies},
			extref.Refuse: {[]string{"delete", "find", "find", "find", "commitTransaction"}, 1},
		} {
			r, db, colls := setUp(t, nil, func(target *extref.Target) { target.OnDelete = policy })
			if policy == extref.Refuse {
				for _, coll := range colls {
					must(t)(coll.DeleteMany(ctx, d()))
				}
			}
			cmds := record(t, db, want.written, want.names, func() error { _, err := r.Delete(ctx, 0); return err })
			if policy == extref.Refuse {
				examined(t, db, cmds[0], "_id_", 1, 1)
				examined(t, db, cmds[1], versions[0].index, 1, 1)
			}
			if policy == extref.Unset {
				examined(t, db, cmds[0], "_id_", 1, 1)
				examined(t, db, cmds[1], versions[0].index, copies+1, copies)
				examined(t, db, cmds[2], versions[1].index, copies+1, copies)
			}
		}
		r, db, _ := setUp(t, nil, func(target *extref.Target) {
			if !target.Array {
				target.OnDelete = extref.Cascade
			} else {
				target.OnDelete = extref.Keep
			}
		})
		cmds := record(t, db, 1+2*copies, []string{"delete", "delete", "delete", "commitTransaction"}, func() error { _, err := r.Delete(ctx, 0); return err })
		examined(t, db, cmds[1], versions[0].index, copies+1, copies)
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
		write := []string{"find single", "update single", "find many", "update many", "find flat", "update flat", "update tokens"}
		cmds := record(1, d("$set", d("name", "x"), "$inc", d("version", 1)),
			slices.Concat([]string{"update teams", "find teams"}, look, write)...)
		last := cmds.Named("update")
		examined(t, db, last[len(last)-1], "_id_", 1, 1)
		for i, c := range cmds.Named("find")[1:4] { // of copies that are not behind there are none
			examined(t, db, replaceVersion(t, c, 99), versions[i].index, 1, 0)
		}
		// Without a higher version: its own raise is an event as well.
		record(2, d("$set", d("name", "y")), slices.Concat([]string{"update teams", "find teams",
			"find single", "find teams", "find single", "find many", "find teams", "find many", "find flat", "find teams", "find flat",
			"findAndModify teams"}, look, write, []string{"find teams"}, look, look, []string{"update tokens"})...)
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
