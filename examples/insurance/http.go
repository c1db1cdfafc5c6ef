package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/versioning"
)

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, handler func(w http.ResponseWriter, r *http.Request) (int, any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			status, body, err := handler(w, r)
			if err != nil {
				status, body = failure(err)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			if err := json.NewEncoder(w).Encode(body); err != nil {
				log.Printf("insurance: answer: %v", err)
			}
		})
	}
	handle("POST /policies", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[struct{ ID, Holder, Plan, Author string }](w, r)
		if err == nil && (in.ID == "" || in.Holder == "") {
			err = badRequest("id and holder are required")
		}
		if err != nil {
			return 0, nil, err
		}
		made, err := s.create(r.Context(), policy{ID: in.ID, Holder: in.Holder, Plan: in.Plan, Covers: []coverDoc{}}, in.Author)
		return http.StatusCreated, shown(made), err
	})
	handle("POST /policies/{id}/covers", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[struct {
			Author, Reason, Kind string
			Item                 itemCover
			Travel               travelCover
		}](w, r)
		if err != nil {
			return 0, nil, err
		}
		kinds := map[string]cover{"item": in.Item, "travel": in.Travel}
		if kinds[in.Kind] == nil {
			return 0, nil, badRequest("kind is item or travel")
		}
		made, err := s.add(r.Context(), r.PathValue("id"), kinds[in.Kind], versioning.Change{Author: in.Author, Reason: in.Reason})
		return http.StatusCreated, shown(made), err
	})
	handle("GET /policies/{id}", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		var at time.Time
		if text := r.URL.Query().Get("at"); text != "" {
			var err error
			if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return 0, nil, badRequest("at: " + err.Error())
			}
		}
		found, err := s.policy(r.Context(), r.PathValue("id"), at)
		return http.StatusOK, shown(found), err
	})
	handle("GET /policies/{id}/history", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		all, err := s.history(r.Context(), r.PathValue("id"))
		return http.StatusOK, all, err
	})
	handle("GET /customers", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		all, err := s.find(r.Context())
		return http.StatusOK, all, err
	})
	handle("GET /check", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		problems, err := s.check(r.Context())
		return http.StatusOK, problems, err
	})
	return mux
}

// revision is a revision of a policy as clients see it.
type revision struct {
	Number  int64             `json:"revision"`
	Change  versioning.Change `json:"change"`
	Policy  policy            `json:"policy"`
	Premium int               `json:"premium"`
	Error   string            `json:"error,omitempty"` // why there is nothing else
}

func shown(r versioning.Revision[stored]) revision {
	out := revision{Number: r.Number, Change: r.Change, Policy: r.Document.V}
	for _, c := range out.Policy.Covers {
		if c.V != nil { // another program has left a null
			out.Premium += c.V.Premium()
		}
	}
	return out
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
	var bad badRequest
	status, text := http.StatusInternalServerError, ""
	switch {
	case errors.As(err, &bad):
		status, text = http.StatusBadRequest, bad.Error()
	case errors.Is(err, mongopatterns.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, mongo.ErrNoDocuments):
		status = http.StatusNotFound
	case errors.Is(err, mongopatterns.ErrExists):
		status, text = http.StatusConflict, "exists already"
	case errors.Is(err, mongopatterns.ErrConflict):
		status = http.StatusConflict
	case errors.Is(err, mongopatterns.ErrNewer): // a newer instance of the service can read it
		status, text = http.StatusServiceUnavailable, newer
	default:
		log.Printf("insurance: %v", err)
	}
	if text == "" {
		text = strings.ToLower(http.StatusText(status))
	}
	return status, map[string]string{"error": text}
}

// newer is shown in the place of a policy that a newer program has written.
const newer = "stored by a newer version of this service"
