//go:build unix

package computed_test

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Every call, on a cluster with sources and targets sharded by the package's own keys and stored on
// both shards.
func TestSharded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := mongotest.Sharded(t, 2)
	db := s.Database(t)
	screenings, films := db.Collection("screenings"), db.Collection("films")
	opts := perFilm()
	opts.Lease = time.Hour
	c := testkit.Must(totalsOf[int, string, film](screenings, films, opts))
	check(t, c.EnsureIndexes(ctx))
	check(t, s.Shard(ctx, screenings, c.ShardKey()["screenings"], bson.D{{Key: "film", Value: "m"}}))
	check(t, s.Shard(ctx, films, c.ShardKey()["films"], bson.D{{Key: "_id", Value: "m"}}))
	var ids []string
	for i := range 10 {
		id := fmt.Sprintf("%c film", 'a'+2*i)
		ids = append(ids, id)
		_, err := films.InsertOne(ctx, bson.M{"_id": id})
		check(t, err)
		_, err = screenings.InsertOne(ctx, screening{ID: i, Film: id, Theatre: "x", Viewers: i})
		check(t, err)
	}
	check(t, c.Mark(ctx, ids...))
	if result, err := c.Drain(ctx, nil); err != nil || result.Done != 10 {
		t.Errorf("Drain: %+v, %v", result, err)
	}
	check(t, c.Mark(ctx, ids...))
	if f, err := c.Get(ctx, ids[9], time.Hour); err != nil || f.Viewers != 9 {
		t.Errorf("Get: %+v, %v", f, err)
	}
	if result, err := c.RefreshAll(ctx, nil); err != nil || result.Done != 10 {
		t.Errorf("RefreshAll: %+v, %v", result, err)
	}
	for p, err := range c.Check(ctx, nil) {
		t.Error(p, err)
	}
}
