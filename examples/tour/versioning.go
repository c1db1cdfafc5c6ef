package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/versioning"
)

type policy struct {
	ID    string   `bson:"_id"`
	Name  string   `bson:"name"`
	Kind  string   `bson:"policy"`
	Items []string `bson:"items"`
}

func versioningChapter(ctx context.Context, g *guide) error {
	policies, err := versioning.New[string, policy](
		g.db.Collection("current_policies"), g.db.Collection("policy_revisions"),
		&versioning.Options{DocumentIDField: "policy_id"})
	if err != nil {
		return err
	}
	if err := policies.EnsureIndexes(ctx); err != nil {
		return err
	}
	const bilbo = "bilbo"
	at := func(month time.Month) time.Time { return time.Date(1941, month, 1, 9, 0, 0, 0, time.UTC) }
	current := &example{"current_policies", bson.D{{Key: "_id", Value: bilbo}}}
	err = g.show(ctx, "Bilbo's policy", current, func() ([]string, error) {
		_, err := policies.Insert(ctx, policy{ID: bilbo, Name: "Bilbo Baggins", Kind: "Shire standard", Items: []string{}},
			versioning.Change{Author: "gandalf", At: at(time.April)})
		return nil, err
	})
	if err != nil {
		return err
	}
	read, err := policies.Get(ctx, bilbo)
	if err != nil {
		return err
	}
	err = g.show(ctx, "the Elven Sword: the old state goes to the revisions in the same transaction",
		&example{"policy_revisions", bson.D{{Key: "policy_id", Value: bilbo}}}, func() ([]string, error) {
			changed := read
			changed.Document.Items = []string{"Elven Sword"}
			saved, err := policies.Save(ctx, changed, versioning.Change{Author: "elrond", Reason: "from the troll cave", At: at(time.May)})
			return []string{fmt.Sprintf("revision %d", saved.Number)}, err
		})
	if err != nil {
		return err
	}
	err = g.show(ctx, "who saves what was read before that is told", nil, func() ([]string, error) {
		changed := read
		changed.Document.Kind = "Travel"
		_, err := policies.Save(ctx, changed, versioning.Change{Author: "sackville-baggins"})
		var conflict *versioning.ConflictError
		if !errors.As(err, &conflict) {
			return nil, fmt.Errorf("no conflict: %w", err)
		}
		return []string{fmt.Sprintf("read revision %d, now it is %d", conflict.Read, conflict.Current)}, nil
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "the One Ring, by a function that is run again after a conflict", current, func() ([]string, error) {
		saved, err := policies.Edit(ctx, bilbo, func(p *policy) error {
			p.Items = append(p.Items, "One Ring")
			return nil
		}, versioning.Change{Author: "bilbo", Reason: "found it", At: at(time.July)})
		return []string{fmt.Sprintf("revision %d", saved.Number)}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "the current state: one round trip, no join", nil, func() ([]string, error) {
		now, err := policies.Get(ctx, bilbo)
		return []string{strings.Join(now.Document.Items, ", ")}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "what was insured in June?", nil, func() ([]string, error) {
		then, err := policies.AsOf(ctx, bilbo, at(time.June))
		return []string{fmt.Sprintf("revision %d: %s", then.Number, strings.Join(then.Document.Items, ", "))}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "the history, newest first", nil, func() ([]string, error) {
		var out []string
		for r, err := range policies.Revisions(ctx, bilbo) {
			if err != nil {
				return nil, err
			}
			out = append(out, fmt.Sprintf("%d  %s  %-8s %s", r.Number, r.Change.At.Format(time.DateOnly), r.Change.Author, r.Change.Reason))
		}
		return out, nil
	})
	if err != nil {
		return err
	}
	return g.show(ctx, "what changed from the first to the third?", nil, func() ([]string, error) {
		differences, err := policies.Diff(ctx, bilbo, 1, 3)
		var out []string
		for _, d := range differences {
			out = append(out, fmt.Sprintf("%v", d))
		}
		return out, err
	})
}
