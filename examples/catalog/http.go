package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/paging"
)

// The sizes of pages: where the client asks for none, and at most.
const defaultSize, maxSize = 20, 100

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
	handle("GET /categories/{id}", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		page, err := s.category(r.Context(), r.PathValue("id"))
		return http.StatusOK, page, err
	})
	handle("GET /categories/{id}/tree", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		whole, err := s.branch(r.Context(), r.PathValue("id"))
		return http.StatusOK, whole, err
	})
	handle("POST /categories/{id}/move", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[struct {
			Parent string `json:"parent"`
		}](w, r)
		if err != nil {
			return 0, nil, err
		}
		return http.StatusNoContent, nil, s.moveCategory(r.Context(), r.PathValue("id"), in.Parent)
	})
	handle("DELETE /categories/{id}", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		return http.StatusNoContent, nil, s.deleteCategory(r.Context(), r.PathValue("id"))
	})
	handle("POST /products", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		p, err := decode[product](w, r)
		if err != nil {
			return 0, nil, err
		}
		if p.SKU == "" || p.Name == "" || p.Category == "" || p.Price < 0 {
			return 0, nil, badRequest("sku, name and category are required, and a price of at least 0")
		}
		return http.StatusCreated, p, s.addProduct(r.Context(), p)
	})
	handle("GET /categories/{id}/products", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		req, err := paging.ParseRequest(r.URL.Query(), defaultSize, maxSize)
		if err != nil {
			return 0, nil, err
		}
		order := r.URL.Query().Get("sort")
		if order == "" {
			order = "name"
		}
		page, err := s.productPage(r.Context(), r.PathValue("id"), order, req)
		if err != nil {
			return 0, nil, err
		}
		if link := page.LinkHeader(r.URL); link != "" {
			w.Header().Set("Link", link)
		}
		return http.StatusOK, page, nil
	})
	return mux
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
	switch {
	case errors.As(err, &bad):
		status, text = http.StatusBadRequest, bad.Error()
	case errors.Is(err, mongopatterns.ErrInvalid): // or an invalid token
		status = http.StatusBadRequest
	case errors.Is(err, mongo.ErrNoDocuments): // mongopatterns.ErrNotFound, mongopatterns.ErrNoParent
		status = http.StatusNotFound
	case errors.Is(err, errNotEmpty):
		status, text = http.StatusConflict, errNotEmpty.Error()
	case mongo.IsDuplicateKeyError(err): // also mongopatterns.ErrExists
		status, text = http.StatusConflict, "exists already"
	case errors.Is(err, mongopatterns.ErrConflict):
		status = http.StatusConflict
	default:
		log.Printf("catalog: %v", err)
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
		log.Printf("catalog: write the answer: %v", err)
	}
}
