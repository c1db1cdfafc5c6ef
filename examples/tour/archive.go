package main

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/examples/data"
)

func archiveChapter(ctx context.Context, g *guide) error {
	weather, err := data.SeattleWeather()
	if err != nil {
		return err
	}
	live, old := g.db.Collection("hours"), g.db.Collection("hours_archive")
	var docs []any
	for i, hour := range weather[:90*24] {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "at", Value: hour.Time}, {Key: "temperature", Value: hour.Temperature}})
	}
	if _, err := live.InsertMany(ctx, docs); err != nil {
		return err
	}
	a, err := archive.New(live, old, &archive.Options{TimeField: "at"})
	if err != nil {
		return err
	}
	if err := a.EnsureIndexes(ctx); err != nil {
		return err
	}
	first := weather[0].Time
	february := first.AddDate(0, 1, 0)
	january := &example{"hours_archive", bson.D{{Key: "_id", Value: 0}}}
	move := func() ([]string, error) {
		result, err := a.Move(ctx, a.BeforeFilter(february), nil)
		return []string{fmt.Sprintf("%d hours moved", result.Done)}, err
	}
	if err := g.show(ctx, "January, 100 hours in a transaction: each hour is in exactly one collection", january, move); err != nil {
		return err
	}
	if err := g.show(ctx, "again: nothing is left to do", nil, move); err != nil {
		return err
	}
	err = g.show(ctx, "both sides in one aggregation: hours below 5 °C", nil, func() ([]string, error) {
		cursor, err := live.Aggregate(ctx, mongo.Pipeline{
			{{Key: "$unionWith", Value: old.Name()}},
			{{Key: "$match", Value: bson.D{{Key: "temperature", Value: bson.D{{Key: "$lt", Value: 5}}}}}},
			{{Key: "$group", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$cond", Value: bson.A{
				bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: "$type", Value: "$archived_at"}}, "missing"}}}, "live", "archived"}}}},
				{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
			{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
		})
		if err != nil {
			return nil, err
		}
		var sides []struct {
			Side string `bson:"_id"`
			N    int
		}
		err = cursor.All(ctx, &sides)
		var out []string
		for _, side := range sides {
			out = append(out, fmt.Sprintf("%-9s %3d", side.Side, side.N))
		}
		return out, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "the first day comes back as it was", &example{"hours", bson.D{{Key: "_id", Value: 0}}}, func() ([]string, error) {
		result, err := a.Restore(ctx, bson.D{{Key: "at", Value: bson.D{{Key: "$lt", Value: first.Add(24 * time.Hour)}}}}, nil)
		return []string{fmt.Sprintf("%d hours restored", result.Done)}, err
	})
	if err != nil {
		return err
	}
	return g.show(ctx, "is any hour in both?", nil, func() ([]string, error) {
		n := 0
		for _, err := range a.Check(ctx, nil) {
			if err != nil {
				return nil, err
			}
			n++
		}
		return []string{fmt.Sprintf("%d problems", n)}, nil
	})
}
