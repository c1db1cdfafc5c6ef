package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// customer is versioned: each save is a revision.
type customer struct {
	ID      string  `bson:"_id" json:"id"`
	Name    string  `bson:"name" json:"name"`
	Email   string  `bson:"email" json:"email"`
	Address address `bson:"address" json:"address"`
}

type address struct {
	Street string `bson:"street" json:"street"`
	City   string `bson:"city" json:"city"`
}

type order struct {
	ID       bson.ObjectID `bson:"_id" json:"id"`
	Customer struct {
		ID      string  `bson:"_id" json:"id"`
		Name    string  `bson:"name" json:"name"`
		Address address `bson:"address" json:"address"`
	} `bson:"customer" json:"customer"`
	Lines  []line    `bson:"lines" json:"lines"`
	Total  int64     `bson:"total" json:"total"` // cents
	Placed time.Time `bson:"placed" json:"placed"`
}

type line struct {
	SKU      string `bson:"sku" json:"sku"`
	Name     string `bson:"name" json:"name"`
	Price    int64  `bson:"price" json:"price"`
	Quantity int64  `bson:"quantity" json:"quantity"`
}

var (
	errOrders    = errors.New("the customer has orders")
	errNoProduct = errors.New("no such product")
)

// saveCustomer saves what was changed in the revision read, and takes the new name
// to the orders, in one transaction.
func (s *service) saveCustomer(ctx context.Context, read int64, c customer, by versioning.Change) (versioning.Revision[customer], error) {
	var saved versioning.Revision[customer]
	err := mongopatterns.Transact(ctx, s.orderColl.Database().Client(), func(ctx context.Context) error {
		var err error
		saved, err = s.customers.Save(ctx, versioning.Revision[customer]{Number: read, Document: c}, by)
		if err != nil {
			return err
		}
		_, err = s.customerCopies.Propagate(ctx, c.ID, nil)
		return err
	})
	return saved, err
}

// deleteCustomer deletes a customer without orders; the history stays. An order
// placed at the same time pins the customer, so one of the two runs again.
func (s *service) deleteCustomer(ctx context.Context, id string, read int64, by versioning.Change) error {
	return mongopatterns.Transact(ctx, s.orderColl.Database().Client(), func(ctx context.Context) error {
		if err := s.customers.Delete(ctx, id, read, by); err != nil {
			return err
		}
		filter, err := s.customerCopies.Filter("orders.customer", id)
		if err != nil {
			return err
		}
		err = s.orderColl.FindOne(ctx, filter).Err()
		switch {
		case err == nil:
			return fmt.Errorf("%w: %s", errOrders, id)
		case errors.Is(err, mongo.ErrNoDocuments):
			return nil
		}
		return err
	})
}

// placeOrder stores an order with copies of its customer and products, and puts
// the customer among the buyers of each product, in one transaction.
func (s *service) placeOrder(ctx context.Context, customerID string, lines []line) (order, error) {
	var placed order
	err := mongopatterns.Transact(ctx, s.orderColl.Database().Client(), func(ctx context.Context) error {
		buyer, err := s.customerCopies.Pin(ctx, "orders.customer", customerID)
		if err != nil {
			return err
		}
		var skus []string
		for _, l := range lines {
			skus = append(skus, l.SKU)
		}
		// Sorted, so that orders of the same products wait instead of conflicting
		// crosswise.
		slices.Sort(skus)
		skus = slices.Compact(skus)
		products := map[string]product{}
		cursor, err := s.productColl.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: skus}}}},
			options.Find().SetProjection(bson.D{{Key: "name", Value: 1}, {Key: "price", Value: 1}}))
		if err != nil {
			return err
		}
		var found []product
		if err := cursor.All(ctx, &found); err != nil {
			return err
		}
		for _, p := range found {
			products[p.SKU] = p
		}
		var copies bson.A
		var total int64
		for _, l := range lines {
			p, ok := products[l.SKU]
			if !ok {
				return fmt.Errorf("%w: %q", errNoProduct, l.SKU)
			}
			copied, err := s.productCopies.Copy("orders.lines", p)
			if err != nil {
				return err
			}
			copies = append(copies, append(copied, bson.E{Key: "quantity", Value: l.Quantity}))
			total += p.Price * l.Quantity
		}
		for _, sku := range skus {
			if _, err := s.buyers.Add(ctx, sku, customerID); err != nil {
				return err
			}
		}
		stored, err := bson.Marshal(bson.D{
			{Key: "_id", Value: bson.NewObjectID()},
			{Key: "customer", Value: buyer},
			{Key: "lines", Value: copies},
			{Key: "total", Value: total},
			{Key: "placed", Value: time.Now()},
		})
		if err != nil {
			return err
		}
		placed = order{}
		if err := bson.Unmarshal(stored, &placed); err != nil {
			return err
		}
		_, err = s.orderColl.InsertOne(ctx, bson.Raw(stored))
		return err
	})
	return placed, err
}

func (s *service) orderList(ctx context.Context, customerID string, req paging.Request) (*paging.Page[order], error) {
	filter, err := s.customerCopies.Filter("orders.customer", customerID)
	if err != nil {
		return nil, err
	}
	return s.orderPages.Page(ctx, filter, req)
}
