package killed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

const archivedDocs = 200

func openArchive(db *mongo.Database) (*archive.Archive, error) {
	return archive.New(db.Collection("live"), db.Collection("archive"), &archive.Options{TimeField: "at"})
}

// archiver moves, restores or updates documents until it is killed.
func archiver(db *mongo.Database, role string, from int) error {
	ctx := context.Background()
	a, err := openArchive(db)
	if err != nil {
		return err
	}
	work := &mongopatterns.Work{BatchSize: 7}
	for n := from; ; n++ {
		var result mongopatterns.Result
		switch {
		case strings.HasPrefix(role, "move"):
			result, err = a.Move(ctx, a.BeforeFilter(day.Add(time.Duration(n*37%archivedDocs)*time.Hour)), work)
		case role == "restore":
			result, err = a.Restore(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$mod", Value: bson.A{5, n % 5}}}}}, work)
		default:
			// The update and its entry in a log are one transaction: how often a document was updated
			// is known, whenever the process is killed.
			id := n * 31 % archivedDocs
			err = mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
				done, err := db.Collection("live").UpdateByID(ctx, id, bson.D{{Key: "$inc", Value: bson.D{{Key: "v", Value: 1}}}})
				if err == nil && done.MatchedCount == 1 {
					_, err = db.Collection("log").InsertOne(ctx, bson.D{{Key: "doc", Value: id}})
				}
				return err
			})
		}
		if err != nil {
			return err
		}
		if result.Failed > 0 {
			return errors.New(fmt.Sprint(result))
		}
		fmt.Println("done", n)
	}
}

// Processes move documents to an archive and back while another updates them, and one after the other is killed.
// Each document is stored once, with every update that was committed.
func TestKilledArchive(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	t.Parallel()
	set := mongotest.ReplicaSet(t, 1)
	db := set.Database(t)
	endSoon(t, db)
	a, err := openArchive(db)
	testkit.OK(t, err)
	testkit.OK(t, a.EnsureIndexes(t.Context()))
	testkit.OK(t, db.CreateCollection(t.Context(), "log"))
	docs := make([]any, archivedDocs)
	for i := range docs {
		docs[i] = bson.D{{Key: "_id", Value: i}, {Key: "at", Value: day.Add(time.Duration(i) * time.Hour)}, {Key: "v", Value: 0}}
	}
	_, err = db.Collection("live").InsertMany(t.Context(), docs)
	testkit.OK(t, err)

	processes := []*process{{role: "move"}, {role: "move too"}, {role: "restore"}, {role: "update"}}
	for _, p := range processes {
		p.done, p.begun = -1, -1
		p.start(t, db, set.URI, "archive")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range kills() {
		p := processes[i%len(processes)]
		p.kill(t, r)
		p.start(t, db, set.URI, "archive")
	}
	for _, p := range processes {
		p.kill(t, r)
		t.Logf("%s: %d", p.role, p.done)
	}

	ended(t, db)
	updates := map[int]int{}
	for _, doc := range read(t, db.Collection("log")) {
		updates[int(doc.Lookup("doc").AsInt64())]++
	}
	stored, inArchive := map[int]int{}, 0
	for _, coll := range []string{"live", "archive"} {
		for _, doc := range read(t, db.Collection(coll)) {
			id := int(doc.Lookup("_id").AsInt64())
			stored[id]++
			if v := int(doc.Lookup("v").AsInt64()); v != updates[id] {
				t.Errorf("%d was updated %d times, want %d", id, v, updates[id])
			}
			if coll == "archive" {
				inArchive++
			}
		}
	}
	for i := range archivedDocs {
		if stored[i] != 1 {
			t.Errorf("%d is stored %d times", i, stored[i])
		}
	}
	if len(updates) == 0 {
		t.Error("no document was updated")
	}
	t.Logf("%d documents were updated, %d are archived", len(updates), inArchive)
	for problem, err := range a.Check(t.Context(), nil) {
		t.Error(problem, err)
	}
}

func read(t *testing.T, coll *mongo.Collection) (docs []bson.Raw) {
	t.Helper()
	c, err := coll.Find(t.Context(), bson.D{})
	testkit.OK(t, err)
	testkit.OK(t, c.All(t.Context(), &docs))
	return docs
}
