package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// The sizes of pages: where the client asks for none, and at most.
const defaultSize, maxSize = 20, 100

// handler serves the shop. Who calls is named by the header X-User; a real service
// would take it from its authentication.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, handler func(w http.ResponseWriter, r *http.Request) (int, any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			status, body, err := handler(w, r)
			if err != nil {
				status, body = failure(err)
			}
			respond(w, status, body)
		})
	}
	s.handleProducts(handle)
	s.handleReviews(handle)
	s.handleCustomers(handle)
	s.handleOrders(handle)
	return mux
}

type route = func(pattern string, handler func(w http.ResponseWriter, r *http.Request) (int, any, error))

func (s *service) handleProducts(handle route) {
	handle("POST /categories", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[struct {
			category
			Parent string `json:"parent"`
		}](w, r)
		if err != nil {
			return 0, nil, err
		}
		if in.ID == "" || in.Name == "" {
			return 0, nil, badRequest("id and name are required")
		}
		return http.StatusCreated, in.category, s.addCategory(r.Context(), in.category, in.Parent)
	})
	handle("GET /categories/{id}/products", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		order := r.URL.Query().Get("sort")
		if order == "" {
			order = "name"
		}
		return paged(w, r, func(ctx context.Context, req paging.Request) (*paging.Page[listed], error) {
			return s.productList(ctx, r.PathValue("id"), order, r.URL.Query()["spec"], req)
		})
	})
	handle("GET /categories/{id}/facets", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		facets, err := s.facets(r.Context(), r.PathValue("id"), r.URL.Query()["spec"])
		return http.StatusOK, map[string]any{"facets": facets}, err
	})
	handle("POST /products", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[struct {
			SKU      string         `json:"sku"`
			Name     string         `json:"name"`
			Category string         `json:"category"`
			Price    int64          `json:"price"`
			Specs    map[string]any `json:"specs"`
		}](w, r)
		if err != nil {
			return 0, nil, err
		}
		if in.SKU == "" || in.Name == "" || in.Category == "" || in.Price < 0 {
			return 0, nil, badRequest("sku, name and category are required, and a price of at least 0")
		}
		for key, value := range in.Specs {
			if err := checkSpec(key, value); err != nil {
				return 0, nil, err
			}
		}
		p := product{SKU: in.SKU, Name: in.Name, Category: in.Category, Price: in.Price}
		return http.StatusCreated, in, s.addProduct(r.Context(), p, in.Specs)
	})
	handle("GET /products/{sku}", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		page, err := s.product(r.Context(), r.PathValue("sku"))
		return http.StatusOK, page, err
	})
	handle("DELETE /products/{sku}", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		return http.StatusNoContent, nil, s.deleteProduct(r.Context(), r.PathValue("sku"))
	})
	handle("PUT /products/{sku}/specs/{key}", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[struct {
			Value any `json:"value"`
		}](w, r)
		if err != nil {
			return 0, nil, err
		}
		key := r.PathValue("key")
		if err := checkSpec(key, in.Value); err != nil {
			return 0, nil, err
		}
		return http.StatusNoContent, nil, s.specs.Set(r.Context(), r.PathValue("sku"), attribute.Named(key), in.Value)
	})
	handle("DELETE /products/{sku}/specs/{key}", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		return http.StatusNoContent, nil, s.specs.Remove(r.Context(), r.PathValue("sku"), attribute.Named(r.PathValue("key")))
	})
	handle("GET /products/{sku}/buyers", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		offset, err := number(r.URL.Query(), "offset", 0)
		if err != nil {
			return 0, nil, err
		}
		limit, err := number(r.URL.Query(), "limit", 20)
		if err != nil {
			return 0, nil, err
		}
		buyers, err := s.buyers.Slice(r.Context(), r.PathValue("sku"), offset, min(max(limit, 1), 100))
		return http.StatusOK, buyers, err
	})
}

func (s *service) handleReviews(handle route) {
	type body struct {
		Author string `json:"author"`
		Rating int64  `json:"rating"`
		Text   string `json:"text"`
	}
	read := func(w http.ResponseWriter, r *http.Request) (body, error) {
		in, err := decode[body](w, r)
		if err == nil && (in.Rating < 1 || in.Rating > 5) {
			err = badRequest("rating: want 1 to 5")
		}
		return in, err
	}
	handle("POST /products/{sku}/reviews", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := read(w, r)
		if err != nil {
			return 0, nil, err
		}
		if in.Author == "" {
			return 0, nil, badRequest("author is required")
		}
		added, err := s.addReview(r.Context(), r.PathValue("sku"), review{Author: in.Author, Rating: in.Rating, Text: in.Text})
		return http.StatusCreated, added, err
	})
	handle("GET /products/{sku}/reviews", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		if err := s.exists(r.Context(), r.PathValue("sku")); err != nil {
			return 0, nil, err
		}
		return paged(w, r, func(ctx context.Context, req paging.Request) (*paging.Page[review], error) {
			return s.reviewList(ctx, r.PathValue("sku"), req)
		})
	})
	handle("PUT /products/{sku}/reviews/{id}", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		id, err := objectID(r)
		if err != nil {
			return 0, nil, err
		}
		in, err := read(w, r)
		if err != nil {
			return 0, nil, err
		}
		return http.StatusNoContent, nil, s.changeReview(r.Context(), r.PathValue("sku"), id, in.Rating, in.Text)
	})
	handle("DELETE /products/{sku}/reviews/{id}", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		id, err := objectID(r)
		if err != nil {
			return 0, nil, err
		}
		return http.StatusNoContent, nil, s.reviews.Delete(r.Context(), r.PathValue("sku"), id)
	})
}

func (s *service) handleCustomers(handle route) {
	// A customer goes out with its revision as ETag, and comes back with If-Match.
	answer := func(w http.ResponseWriter, revision versioning.Revision[customer], err error) (any, error) {
		if err != nil {
			return nil, err
		}
		w.Header().Set("ETag", fmt.Sprintf("%q", strconv.FormatInt(revision.Number, 10)))
		return revision.Document, nil
	}
	read := func(w http.ResponseWriter, r *http.Request) (customer, error) {
		in, err := decode[customer](w, r)
		if err == nil && (in.ID == "" || in.Name == "") {
			err = badRequest("id and name are required")
		}
		return in, err
	}
	handle("POST /customers", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := read(w, r)
		if err != nil {
			return 0, nil, err
		}
		created, err := s.customers.Insert(r.Context(), in, change(r))
		body, err := answer(w, created, err)
		return http.StatusCreated, body, err
	})
	handle("GET /customers/{id}", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		var revision versioning.Revision[customer]
		var err error
		if asOf := r.URL.Query().Get("as_of"); asOf == "" {
			revision, err = s.customers.Get(r.Context(), r.PathValue("id"))
		} else {
			moment, parseErr := time.Parse(time.RFC3339Nano, asOf)
			if parseErr != nil {
				return 0, nil, badRequest("as_of: " + parseErr.Error())
			}
			revision, err = s.customers.AsOf(r.Context(), r.PathValue("id"), moment)
		}
		body, err := answer(w, revision, err)
		return http.StatusOK, body, err
	})
	handle("PUT /customers/{id}", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		match, err := ifMatch(r)
		if err != nil {
			return 0, nil, err
		}
		in, err := read(w, r)
		if err != nil {
			return 0, nil, err
		}
		if in.ID != r.PathValue("id") {
			return 0, nil, badRequest("id: want that of the URL")
		}
		saved, err := s.saveCustomer(r.Context(), match, in, change(r))
		body, err := answer(w, saved, err)
		return http.StatusOK, body, err
	})
	handle("DELETE /customers/{id}", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		match, err := ifMatch(r)
		if err != nil {
			return 0, nil, err
		}
		return http.StatusNoContent, nil, s.deleteCustomer(r.Context(), r.PathValue("id"), match, change(r))
	})
	handle("GET /customers/{id}/revisions", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		type entry struct {
			Number   int64     `json:"number"`
			At       time.Time `json:"at"`
			Author   string    `json:"author"`
			Reason   string    `json:"reason"`
			Deleted  bool      `json:"deleted,omitempty"`
			Document *customer `json:"customer,omitempty"`
		}
		const newest = 50
		revisions := []entry{}
		for revision, err := range s.customers.Revisions(r.Context(), r.PathValue("id")) {
			if err != nil {
				return 0, nil, err
			}
			e := entry{
				Number: revision.Number, At: revision.Change.At, Author: revision.Change.Author,
				Reason: revision.Change.Reason, Deleted: revision.Deleted,
			}
			if !revision.Deleted {
				e.Document = &revision.Document
			}
			if revisions = append(revisions, e); len(revisions) == newest {
				break
			}
		}
		return http.StatusOK, map[string]any{"revisions": revisions}, nil
	})
}

func (s *service) handleOrders(handle route) {
	handle("POST /orders", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[struct {
			Customer string `json:"customer"`
			Lines    []struct {
				SKU      string `json:"sku"`
				Quantity int64  `json:"quantity"`
			} `json:"lines"`
		}](w, r)
		if err != nil {
			return 0, nil, err
		}
		if in.Customer == "" || len(in.Lines) == 0 || len(in.Lines) > 100 {
			return 0, nil, badRequest("customer and 1 to 100 lines are required")
		}
		var lines []line
		for _, l := range in.Lines {
			if l.SKU == "" || l.Quantity < 1 || l.Quantity > 1000 {
				return 0, nil, badRequest("lines: want a sku and a quantity of 1 to 1000")
			}
			lines = append(lines, line{SKU: l.SKU, Quantity: l.Quantity})
		}
		placed, err := s.placeOrder(r.Context(), in.Customer, lines)
		return http.StatusCreated, placed, err
	})
	handle("GET /customers/{id}/orders", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		return paged(w, r, func(ctx context.Context, req paging.Request) (*paging.Page[order], error) {
			return s.orderList(ctx, r.PathValue("id"), req)
		})
	})
}

// paged answers with a page and its links.
func paged[T any](w http.ResponseWriter, r *http.Request, list func(context.Context, paging.Request) (*paging.Page[T], error)) (int, any, error) {
	req, err := paging.ParseRequest(r.URL.Query(), defaultSize, maxSize)
	if err != nil {
		return 0, nil, err
	}
	page, err := list(r.Context(), req)
	if err != nil {
		return 0, nil, err
	}
	if link := page.LinkHeader(r.URL); link != "" {
		w.Header().Set("Link", link)
	}
	return http.StatusOK, page, nil
}

func change(r *http.Request) versioning.Change {
	return versioning.Change{Author: r.Header.Get("X-User"), Reason: r.Header.Get("X-Reason")}
}

func ifMatch(r *http.Request) (int64, error) {
	number, err := strconv.ParseInt(strings.Trim(r.Header.Get("If-Match"), `"`), 10, 64)
	if err != nil {
		return 0, badRequest("If-Match: want the ETag of the customer that was read")
	}
	return number, nil
}

func objectID(r *http.Request) (bson.ObjectID, error) {
	id, err := bson.ObjectIDFromHex(r.PathValue("id"))
	if err != nil {
		return id, badRequest("id: " + err.Error())
	}
	return id, nil
}

func number(query url.Values, name string, missing int64) (int64, error) {
	text := query.Get(name)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, badRequest(name + ": want a number of at least 0")
	}
	return n, nil
}

// checkSpec keeps specs to what a list can be filtered by.
func checkSpec(key string, value any) error {
	switch value.(type) {
	case string, float64, bool:
		if key != "" {
			return nil
		}
	}
	return badRequest("specs: want names with strings, numbers or true and false")
}

type badRequest string

func (e badRequest) Error() string { return string(e) }

// decode reads a small JSON body.
func decode[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var out T
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		return out, badRequest("body: " + err.Error())
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return out, badRequest("body: more than one value")
	}
	return out, nil
}

// failure turns an error into a status and a text. Texts of the library quote IDs and the server, and go to the log.
func failure(err error) (int, any) {
	status, text := http.StatusInternalServerError, ""
	var bad badRequest
	var conflict *versioning.ConflictError
	switch {
	case errors.As(err, &bad):
		status, text = http.StatusBadRequest, bad.Error()
	case errors.Is(err, mongopatterns.ErrInvalid): // or an invalid token
		status = http.StatusBadRequest
	case errors.As(err, &conflict):
		status = http.StatusPreconditionFailed
	case errors.Is(err, mongo.ErrNoDocuments): // the ErrNotFound of every package
		status = http.StatusNotFound
	case errors.Is(err, errNoProduct):
		status, text = http.StatusUnprocessableEntity, errNoProduct.Error()
	case errors.Is(err, errOrders):
		status, text = http.StatusConflict, errOrders.Error()
	case mongo.IsDuplicateKeyError(err), errors.Is(err, mongopatterns.ErrExists):
		status, text = http.StatusConflict, "exists already"
	default:
		log.Printf("shop: %v", err)
	}
	if text == "" {
		text = strings.ToLower(http.StatusText(status))
	}
	return status, map[string]string{"error": text}
}

func respond(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Printf("shop: write the answer: %v", err)
	}
}
