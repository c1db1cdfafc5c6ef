package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

// maxPrice keeps the revenue of all screenings far from the end of an int64.
const maxPrice = 1_000_000

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
				log.Printf("cinema: answer: %v", err)
			}
		})
	}
	handle("POST /films", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[film](w, r)
		if err == nil && (in.ID == "" || in.Title == "") {
			err = badRequest("id and title are required")
		}
		if err != nil {
			return 0, nil, err
		}
		in = film{ID: in.ID, Title: in.Title}
		return http.StatusCreated, in, s.addFilm(r.Context(), in)
	})
	handle("GET /films/{id}", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		f, err := s.film(r.Context(), r.PathValue("id"))
		return http.StatusOK, f, err
	})
	handle("POST /screenings", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[screening](w, r)
		if err == nil && (in.ID == "" || in.Film == "" || in.Price < 0 || in.Price > maxPrice || len(in.Rows) == 0 || len(in.Rows) > 26 || slices.Min(in.Rows) < 1 || slices.Max(in.Rows) > 100) {
			err = badRequest("id, film and 1 to 26 rows of 1 to 100 seats are required, and a price of 0 to 1,000,000")
		}
		if err != nil {
			return 0, nil, err
		}
		return http.StatusCreated, in, s.addScreening(r.Context(), in)
	})
	handle("GET /screenings/{id}/seats", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		counts, err := s.seats.Counts(r.Context(), r.PathValue("id"))
		return http.StatusOK, counts, err
	})
	handle("POST /screenings/{id}/holds", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[struct {
			Order string `json:"order"`
			Seats int    `json:"seats"`
		}](w, r)
		if err == nil && in.Order == "" {
			err = badRequest("order is required")
		}
		if err != nil {
			return 0, nil, err
		}
		cells, err := s.hold(r.Context(), r.PathValue("id"), in.Order, in.Seats)
		return http.StatusCreated, names(cells), err
	})
	handle("POST /screenings/{id}/sales", func(w http.ResponseWriter, r *http.Request) (int, any, error) {
		in, err := decode[struct {
			Order string   `json:"order"`
			Seats []string `json:"seats"`
		}](w, r)
		if err == nil && (in.Order == "" || len(in.Seats) == 0) {
			err = badRequest("order and seats are required")
		}
		if err != nil {
			return 0, nil, err
		}
		var cells []prealloc.Cell
		for _, name := range in.Seats {
			row, number, ok := strings.Cut(name, ".")
			if !ok {
				return 0, nil, badRequest("a seat is named like C.7")
			}
			cells = append(cells, prealloc.At(row, number))
		}
		return http.StatusCreated, in.Seats, s.pay(r.Context(), r.PathValue("id"), in.Order, cells)
	})
	handle("GET /check", func(_ http.ResponseWriter, r *http.Request) (int, any, error) {
		problems, err := s.check(r.Context())
		return http.StatusOK, problems, err
	})
	return mux
}

func names(cells []prealloc.Cell) []string {
	out := []string{}
	for _, c := range cells {
		out = append(out, c.String())
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
	var taken *prealloc.TakenError
	status, text := http.StatusInternalServerError, ""
	switch {
	case errors.As(err, &bad):
		status, text = http.StatusBadRequest, bad.Error()
	case errors.Is(err, mongopatterns.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, errNoFilm):
		status, text = http.StatusUnprocessableEntity, errNoFilm.Error()
	case errors.Is(err, prealloc.ErrNoCell):
		status, text = http.StatusNotFound, "no such seat"
	case errors.Is(err, mongo.ErrNoDocuments): // a film, a screening
		status = http.StatusNotFound
	case mongo.IsDuplicateKeyError(err): // also an ErrExists of the library
		status, text = http.StatusConflict, "exists already"
	case errors.As(err, &taken):
		status, text = http.StatusConflict, taken.Error()
	case errors.Is(err, mongopatterns.ErrConflict): // not so many seats beside each other
		status, text = http.StatusConflict, "taken"
	default:
		log.Printf("cinema: %v", err)
	}
	if text == "" {
		text = strings.ToLower(http.StatusText(status))
	}
	return status, map[string]string{"error": text}
}
