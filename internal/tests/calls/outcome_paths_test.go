package calls_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// proxied is a database behind a proxy.
func proxied(t *testing.T) (*proxy.Proxy, *mongo.Database) {
	t.Helper()
	p := proxy.New(t, mongotest.URI(t))
	return p, mongotest.Database(t, p.Options())
}

// A call that has written something before it fails is not NotDone.
func TestOutcomeAfterAPart(t *testing.T) {
	ctx := t.Context()
	unknown := func(t *testing.T, err error) {
		t.Helper()
		if err == nil || mongopatterns.OutcomeOf(err) != mongopatterns.Unknown {
			t.Errorf("%v is %v", err, mongopatterns.OutcomeOf(err))
		}
	}
	t.Run("approx", func(t *testing.T) {
		p, db := proxied(t)
		c := testkit.Must(approx.New[int](db.Collection("c"), &approx.Options{Every: 100}))
		d := testkit.Must(approx.NewDistinct[int, int](db.Collection("d"), nil))
		for i := range 1500 { // two bulk writes
			testkit.OK(t, c.Add(ctx, i, 1))
			testkit.OK(t, d.Add(ctx, i, 1))
		}
		p.Break(proxy.Nth("update", "c", 1, proxy.Refuse(13)))
		unknown(t, c.Close(ctx))
		p.Break(proxy.Nth("update", "d", 1, proxy.Refuse(13)))
		unknown(t, d.Close(ctx))
	})
	t.Run("computed", func(t *testing.T) {
		p, db := proxied(t)
		c := testkit.Must(computed.New[int, string, bson.D](db.Collection("screenings"), db.Collection("films"), computed.Rule{
			KeyField: "film",
			Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": "$viewers"}}}}}},
			Empty:    bson.D{{Key: "viewers", Value: 0}},
		}, nil))
		testkit.Insert(t, db.Collection("films"), bson.M{"_id": "Dumbo"})
		testkit.Insert(t, db.Collection("screenings"), bson.M{"_id": 1, "film": "Dumbo", "viewers": 10})
		// The answer of the write says that it met one document less, and the look for it fails.
		wrote := false
		p.Break(func(c proxy.Command) *proxy.Fault {
			switch {
			case c.Name == "update" && c.Collection == "films" && !wrote:
				wrote = true
				return &proxy.Fault{Answer: func(bson.Raw) bson.Raw {
					return testkit.Raw(t, bson.D{{Key: "ok", Value: 1.0}, {Key: "n", Value: 0}, {Key: "nModified", Value: 0}})
				}}
			case c.Name == "find" && c.Collection == "films" && wrote:
				f := proxy.Refuse(13)
				return &f
			}
			return nil
		})
		_, err := c.Refresh(ctx, "Dumbo")
		unknown(t, err)
	})
	t.Run("versioning", func(t *testing.T) {
		_, db := proxied(t)
		type item struct {
			ID   int    `bson:"_id"`
			Name string `bson:"name"`
			Qty  int    `bson:"qty"`
		}
		h := testkit.Must(versioning.New[int, item](db.Collection("current"), db.Collection("history"), nil))
		testkit.OK(t, h.EnsureIndexes(ctx))
		r := testkit.Must(h.Insert(ctx, item{1, "a", 1}, versioning.Change{}))
		testkit.Update(t, db.Collection("current"), bson.M{"_id": 1}, bson.M{"$set": bson.M{"qty": "many"}})
		r.Document.Name = "b"
		_, err := h.Save(ctx, r, versioning.Change{})
		unknown(t, err)
	})
	t.Run("schemaversion", func(t *testing.T) {
		_, db := proxied(t)
		type item struct {
			ID  int `bson:"_id"`
			Qty int `bson:"qty"`
		}
		same := func(doc bson.D) (bson.D, error) { return doc, nil }
		c := testkit.Must(schemaversion.New[item](db.Collection("c"), []schemaversion.Step{{Up: same}}, &schemaversion.Options{WriteBack: true}))
		testkit.Insert(t, db.Collection("c"), bson.M{"_id": 1, "qty": "many"})
		_, err := c.Get(ctx, 1)
		unknown(t, err)
	})
	t.Run("write concern", func(t *testing.T) {
		p, db := proxied(t)
		l := testkit.Must(outlier.New[int, string](db.Collection("c"), db.Collection("overflow"), nil))
		testkit.Insert(t, db.Collection("c"), bson.M{"_id": 1})
		p.Break(proxy.Nth("update", "c", 0, proxy.ConcernError(79)))
		result, err := l.AddMany(ctx, func(yield func(int, string) bool) { yield(1, "Ann") }, nil)
		unknown(t, err)
		if result.Failed != 0 || result.Unknown != 1 {
			t.Errorf("%+v", result)
		}
	})
	t.Run("a commit of fn's own", func(t *testing.T) {
		_, db := proxied(t)
		err := mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
			_, err := db.Collection("c").InsertOne(ctx, bson.M{"_id": 1})
			return errors.Join(err, mongo.SessionFromContext(ctx).CommitTransaction(ctx), errors.New("later"))
		})
		unknown(t, err)
	})
}

// A router refuses an upsert without the shard key of a collection that is sharded by another key: an error, and not
// a measurement that is stored already.
func TestStoredUnderAnotherShardKey(t *testing.T) {
	p, db := proxied(t)
	s := testkit.Must(slots.New[string, int](db.Collection("s"), timeseries.Days(nil), nil))
	type measured struct {
		Time time.Time `bson:"timestamp"`
		V    int       `bson:"v"`
	}
	b := testkit.Must(bucket.New[string, measured](db.Collection("b"), timeseries.Every(time.Hour), nil))
	p.Break(func(c proxy.Command) *proxy.Fault {
		if c.Name != "update" {
			return nil
		}
		return &proxy.Fault{Lost: true, Answer: func(bson.Raw) bson.Raw {
			return testkit.Raw(t, bson.D{{Key: "ok", Value: 1.0}, {Key: "n", Value: 0}, {Key: "nModified", Value: 0}, {Key: "writeErrors", Value: bson.A{
				bson.D{{Key: "index", Value: 0}, {Key: "code", Value: 61}, {Key: "errmsg", Value: "could not extract exact shard key"}}}}})
		}}
	})
	if err := s.Set(t.Context(), "a", time.Now(), 7); err == nil {
		t.Error("slots: no error")
	}
	if stored, err := b.Append(t.Context(), "a", measured{time.Now(), 7}); err == nil || stored {
		t.Errorf("bucket: %v, %v", stored, err)
	}
}
