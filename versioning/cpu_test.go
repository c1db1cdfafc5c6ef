//go:build unix

package versioning_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

type wide struct {
	ID     string         `bson:"_id"`
	N      int            `bson:"n"`
	Fields map[string]int `bson:"fields"`
}

func wideD(n int) bson.D {
	doc := bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 0}}
	for i := range n {
		doc = append(doc, bson.E{Key: fmt.Sprintf("field_%d", i), Value: fmt.Sprintf("value %d", i)})
	}
	return doc
}

func cpu() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}

// BenchmarkSave compares a save of 2,000 fields with the same transaction by hand.
func BenchmarkSave(b *testing.B) {
	ctx := b.Context()
	db := mongotest.Database(b)
	d := helper[string, bson.D](b, db, nil)
	r := must[versioning.Revision[bson.D]](b)(d.Insert(ctx, wideD(2000), nobody))
	hand, past := db.Collection("hand"), db.Collection("hand_revisions")
	doc := append(wideD(2000), bson.E{Key: "revision", Value: 1})
	if _, err := hand.InsertOne(ctx, doc); err != nil {
		b.Fatal(err)
	}
	if _, err := past.InsertOne(ctx, bson.D{{Key: "x", Value: 1}}); err != nil {
		b.Fatal(err)
	}
	measure := func(name string, fn func(n int)) {
		b.Run(name, func(b *testing.B) {
			before := cpu()
			n := 0
			for b.Loop() {
				n++
				fn(n)
			}
			b.ReportMetric((cpu()-before)/float64(n), "cpu-µs/op")
		})
	}
	opts := options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority())
	measure("hand", func(n int) {
		session := must[*mongo.Session](b)(db.Client().StartSession())
		defer session.EndSession(ctx)
		doc[1].Value = n
		old := doc[len(doc)-1].Value.(int)
		doc[len(doc)-1].Value = old + 1
		_, err := session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
			before, err := hand.FindOneAndReplace(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "revision", Value: old}}, doc).Raw()
			if err != nil {
				return nil, err
			}
			_, err = past.InsertOne(ctx, bson.D{{Key: "document_id", Value: "a"}, {Key: "revision", Value: old}, {Key: "document", Value: before}})
			return nil, err
		}, opts)
		if err != nil {
			b.Fatal(err)
		}
	})
	measure("save", func(n int) {
		r.Document[1].Value = n
		r = must[versioning.Revision[bson.D]](b)(d.Save(ctx, r, nobody))
	})
	w := helper[string, wide](b, db, nil)
	fields := map[string]int{}
	for i := range 2000 {
		fields[fmt.Sprint("field_", i)] = i
	}
	wr := must[versioning.Revision[wide]](b)(w.Insert(ctx, wide{"w", 0, fields}, nobody))
	measure("save a map", func(n int) {
		wr.Document.N++
		wr = must[versioning.Revision[wide]](b)(w.Save(ctx, wr, nobody))
	})
}
