package mongopatterns_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// A seat is claimed and the order is saved in one transaction: the second buyer gets neither.
func ExampleTransact() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	type Order struct {
		ID   string `bson:"_id"`
		Seat string `bson:"seat"`
	}
	seats, err := prealloc.New[string, string](db.Collection("screenings"), nil)
	if err != nil {
		log.Fatal(err)
	}
	orders, err := versioning.New[string, Order](db.Collection("orders"), db.Collection("order_revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(orders.EnsureIndexes(ctx), seats.Insert(ctx, "tonight", nil, prealloc.Row("A", 2)...)); err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"order 1", "order 2"} {
		err := mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
			if _, err := orders.Insert(ctx, Order{id, "A1"}, versioning.Change{}); err != nil {
				return err
			}
			return seats.Claim(ctx, "tonight", id, prealloc.At("A", "1"))
		})
		fmt.Println(id, errors.Is(err, prealloc.ErrTaken), mongopatterns.OutcomeOf(err))
	}
	_, err = orders.Get(ctx, "order 2")
	fmt.Println(errors.Is(err, mongo.ErrNoDocuments))
	// Output:
	// order 1 false done
	// order 2 true not done
	// true
}

// One loop over the checks of all helpers, for a job at night.
func ExampleCheckAll() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	people, tasks := db.Collection("people"), db.Collection("tasks")
	owned, err := relation.New[string, int, bson.M](people, tasks, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"})
	if err != nil {
		log.Fatal(err)
	}
	seats, err := prealloc.New[string, string](db.Collection("screenings"), nil)
	if err != nil {
		log.Fatal(err)
	}
	// Other programs have written these.
	_, err = people.InsertOne(ctx, bson.M{"_id": "Ann", "tasks": bson.A{1}})
	if err == nil {
		_, err = tasks.InsertOne(ctx, bson.M{"_id": 1})
	}
	if err == nil {
		_, err = db.Collection("screenings").InsertOne(ctx, bson.M{"_id": "tonight", "cells": "A1, A2"})
	}
	if err != nil {
		log.Fatal(err)
	}
	for problem, err := range mongopatterns.CheckAll(ctx, owned, seats) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(problem.Pattern, problem.Kind, problem.ID)
	}
	// Output:
	// relation one-sided "Ann"
	// prealloc malformed "tonight"
}

// A write without an answer may have been done; everything else a program can decide by the error.
func ExampleOutcomeOf() {
	db := mongotest.ExampleDatabase()
	seats, err := prealloc.New[string, string](db.Collection("screenings"), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = seats.Claim(ctx, "tonight", "order 1", prealloc.At("A", "1"))
	switch mongopatterns.OutcomeOf(err) {
	case mongopatterns.Done:
		fmt.Println("claimed")
	case mongopatterns.NotDone:
		fmt.Println("nothing was sent")
	case mongopatterns.Unknown:
		fmt.Println("look, or claim again: Claim may be repeated")
	}
	// Output: nothing was sent
}
