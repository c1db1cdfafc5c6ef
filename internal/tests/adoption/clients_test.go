//go:build unix

package adoption_test

import (
	"context"
	"errors"
	"maps"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// A short name for what hundreds of lines call.
var d = testkit.D

// write is an operation on a document that nobody else writes meanwhile.
func (m *model) write(name string, fits func(*record) bool, do func(ctx context.Context, c *client, r *record) error) op {
	return op{name, func(ctx context.Context, c *client) error {
		r, release, err := m.take(c, fits)
		if err != nil {
			return err
		}
		defer release()
		err = do(ctx, c, r)
		m.note(c, r, name, err)
		return err
	}}
}

// beside is an operation that commutes with others on the document.
func (m *model) beside(name string, fits func(*record) bool, do func(ctx context.Context, c *client, r *record) error) op {
	return op{name, func(ctx context.Context, c *client) error {
		r, release, err := m.share(c, fits)
		if err != nil {
			return err
		}
		defer release()
		err = do(ctx, c, r)
		m.note(c, r, name, err)
		return err
	}}
}

// own are operations of old code on fields that the pattern has nothing to do with.
func (m *model) own() []op {
	return []op{
		m.beside("$inc of a field", alive, func(ctx context.Context, c *client, r *record) error {
			return m.update(ctx, r, d("$inc", d("own.n", int32(1))))
		}),
		m.beside("$set of a nested field", alive, func(ctx context.Context, c *client, r *record) error {
			return m.update(ctx, r, d("$set", d("own."+string(c.name), c.text())))
		}),
		m.beside("$unset of a nested field", alive, func(ctx context.Context, c *client, r *record) error {
			return m.update(ctx, r, d("$unset", d("own."+string(c.name), "")))
		}),
	}
}

// inserted is the insertion of a new document.
func (m *model) inserted(doc func(c *client) bson.M) op {
	return op{"insert", func(ctx context.Context, c *client) error {
		fresh := doc(c)
		if _, there := fresh["_id"]; !there {
			fresh["_id"] = c.id()
		}
		return m.insert(ctx, fresh)
	}}
}

// deleted are deletion, and insertion of another document with the same _id.
func (m *model) deleted(fits func(*record) bool, doc func(c *client) bson.M) []op {
	return []op{
		m.write("delete", fits, func(ctx context.Context, _ *client, r *record) error { return m.remove(ctx, r) }),
		m.write("insert again", func(r *record) bool { return r.doc == nil && r.tags["history"] == nil }, func(ctx context.Context, c *client, r *record) error {
			return m.revive(ctx, r, doc(c))
		}),
	}
}

// rewritten is a replacement of the document as the client has read it, with a change. The
// model has the same change.
func (m *model) rewritten(name string, fits func(*record) bool, change func(c *client, r *record) bson.D) op {
	return m.write(name, fits, func(ctx context.Context, c *client, r *record) error {
		var stored bson.M
		if err := m.coll.FindOne(ctx, d("_id", r.id)).Decode(&stored); err != nil {
			return err
		}
		update := change(c, r)
		stored = normal(stored).(bson.M)
		apply(stored, update)
		result, err := m.coll.ReplaceOne(ctx, d("_id", r.id), stored)
		if err == nil && result.MatchedCount != 1 {
			err = errors.New("the document is gone")
		}
		if err == nil {
			m.follow(r, update)
		}
		return err
	})
}

func merged(docs ...bson.M) bson.M {
	out := bson.M{}
	for _, doc := range docs {
		maps.Copy(out, doc)
	}
	return out
}

func join(lists ...[]op) (out []op) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

const time30 = 30 * time.Minute

// list is documents as an array.
func list(docs []bson.M) bson.A {
	out := bson.A{}
	for _, doc := range docs {
		out = append(out, doc)
	}
	return out
}

func upsert() *options.UpdateOneOptionsBuilder { return options.UpdateOne().SetUpsert(true) }
