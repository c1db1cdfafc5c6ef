package main

import (
	"context"
	"errors"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

type film struct {
	ID      string `json:"id" bson:"_id"`
	Title   string `json:"title" bson:"title"`
	Viewers int    `json:"viewers" bson:"viewers"`
	Revenue int    `json:"revenue" bson:"revenue"`
	Views   int64  `json:"pageViews" bson:"-"`
}

type screening struct {
	ID      string `json:"id" bson:"_id"`
	Film    string `json:"film" bson:"film"`
	Viewers int    `json:"-" bson:"viewers"`
	Revenue int    `json:"-" bson:"revenue"`
	Price   int    `json:"price" bson:"price"`
	Rows    []int  `json:"rows" bson:"-"` // the seats of rows A, B, C, …
}

var errNoFilm = errors.New("no such film")

// service sells seats. A seat is held while the customer pays; the sale adds to its film's
// totals in the same transaction; page views are counted a hundred at a time.
type service struct {
	db         *mongo.Database
	films      *mongo.Collection
	screenings *mongo.Collection
	totals     *computed.Computed[string, string, film]
	seats      *prealloc.Grids[string, string]
	views      *approx.Counters[string]
}

func newService(db *mongo.Database) (*service, error) {
	s := &service{db: db, films: db.Collection("films"), screenings: db.Collection("screenings")}
	var err error
	if s.totals, err = computed.New[string, string, film](s.screenings, s.films, computed.Rule{
		KeyField: "film",
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"},
			{Key: "viewers", Value: bson.M{"$sum": "$viewers"}}, {Key: "revenue", Value: bson.M{"$sum": "$revenue"}}}}}},
		Empty: bson.D{{Key: "viewers", Value: 0}, {Key: "revenue", Value: 0}},
	}, &computed.Options{Additive: true}); err != nil {
		return nil, err
	}
	if s.seats, err = prealloc.New[string, string](db.Collection("seats"), nil); err != nil {
		return nil, err
	}
	s.views, err = approx.New[string](db.Collection("page_views"), &approx.Options{Interval: 10 * time.Second})
	return s, err
}

func (s *service) ensureIndexes(ctx context.Context) error {
	return errors.Join(s.totals.EnsureIndexes(ctx), s.seats.EnsureIndexes(ctx), s.views.EnsureIndexes(ctx))
}

// shard is ensureIndexes and the sharding of all collections, on a sharded cluster.
func (s *service) shard(ctx context.Context) error {
	done, err := mongopatterns.Shard(ctx, s.db, s.totals, s.seats, s.views)
	for _, c := range done {
		if !c.Found {
			log.Printf("cinema: %s is sharded by %v", c.Collection, c.Key)
		}
	}
	return err
}

func (s *service) addFilm(ctx context.Context, f film) error {
	_, err := s.films.InsertOne(ctx, f)
	return err
}

// addScreening stores a screening and its seats, all free.
func (s *service) addScreening(ctx context.Context, in screening) error {
	var cells []prealloc.Cell
	for i, n := range in.Rows {
		cells = append(cells, prealloc.Row(string(rune('A'+i)), n)...)
	}
	return s.totals.Change(ctx, []string{in.ID}, func(ctx context.Context) error {
		if err := s.films.FindOne(ctx, bson.M{"_id": in.Film}).Err(); errors.Is(err, mongo.ErrNoDocuments) {
			return errNoFilm
		} else if err != nil {
			return err
		}
		if _, err := s.screenings.InsertOne(ctx, in); err != nil {
			return err
		}
		return s.seats.Insert(ctx, in.ID, nil, cells...)
	})
}

// film is a film's page, which counts as viewed.
func (s *service) film(ctx context.Context, id string) (film, error) {
	f, err := s.totals.Get(ctx, id, time.Hour)
	if err != nil {
		return f, err
	}
	// The page is worth more than its counter.
	err = s.views.Add(ctx, id, 1)
	if err == nil {
		f.Views, err = s.views.Get(ctx, id)
	}
	if err != nil {
		log.Printf("cinema: page views: %v", err)
	}
	return f, nil
}

// hold holds n seats next to each other for an order.
func (s *service) hold(ctx context.Context, screening, order string, n int) ([]prealloc.Cell, error) {
	return s.seats.HoldAdjacent(ctx, screening, order, 10*time.Minute, n)
}

// pay sells an order's seats: they are claimed, and the film's totals rise, or nothing is done.
// The order pays once, however often it is sent.
func (s *service) pay(ctx context.Context, id, order string, seats []prealloc.Cell) error {
	return s.totals.Change(ctx, []string{id}, func(ctx context.Context) error {
		cells, err := s.seats.Cells(ctx, id)
		if err != nil {
			return err
		}
		sold := 0
		for _, c := range cells {
			for _, want := range seats {
				if c.Cell == want && !c.Free && c.By == order && c.Until.IsZero() {
					sold++
				}
			}
		}
		if sold == len(seats) {
			return nil // paid before
		}
		if err := s.seats.Claim(ctx, id, order, seats...); err != nil {
			return err
		}
		var at screening
		if err := s.screenings.FindOne(ctx, bson.M{"_id": id}).Decode(&at); err != nil {
			return err
		}
		n := len(seats) - sold
		_, err = s.screenings.UpdateByID(ctx, id, bson.M{"$inc": bson.M{"viewers": n, "revenue": n * at.Price}})
		return err
	})
}

// check finds what is inconsistent in the whole database.
func (s *service) check(ctx context.Context) (problems []mongopatterns.Problem, err error) {
	for p, err := range mongopatterns.CheckAll(ctx, s.totals, s.seats) {
		if err != nil {
			return nil, err
		}
		problems = append(problems, p)
	}
	miscounted, err := s.miscounted(ctx)
	return append(problems, miscounted...), err
}

// miscounted are the screenings whose viewers are not as many as their seats that are sold: two
// documents that each sale writes in one transaction, and that are read as they are at one moment here. A
// transaction would do as well, but sharded clusters refuse $lookup there before 8.0.
func (s *service) miscounted(ctx context.Context) (problems []mongopatterns.Problem, err error) {
	pipeline := append(s.seats.CountsPipeline(),
		bson.D{{Key: "$project", Value: bson.M{"sold": bson.M{"$toLong": bson.M{"$sum": "$sections.claimed"}}}}},
		bson.D{{Key: "$lookup", Value: bson.M{"from": s.screenings.Name(), "localField": "_id", "foreignField": "_id", "as": "at"}}},
		bson.D{{Key: "$match", Value: bson.M{"$expr": bson.M{"$ne": bson.A{bson.A{"$sold"}, "$at.viewers"}}}}})
	seats := s.db.Collection("seats", options.Collection().SetReadConcern(readconcern.Snapshot()))
	cursor, err := seats.Aggregate(ctx, pipeline)
	if err != nil {
		return nil, err
	}
	var wrong []bson.Raw
	if err := cursor.All(ctx, &wrong); err != nil {
		return nil, err
	}
	for _, doc := range wrong {
		problems = append(problems, mongopatterns.Problem{Pattern: "cinema", Kind: "miscounted", Collection: s.screenings.Name(), ID: doc.Lookup("_id"),
			Field: "viewers", Have: doc.Lookup("at", "0", "viewers"), Want: doc.Lookup("sold")})
	}
	return problems, nil
}
