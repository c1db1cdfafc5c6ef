package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

type reading struct {
	Timestamp   time.Time `bson:"timestamp"`
	Temperature int       `bson:"temperature"`
}

type climate struct {
	Temperature float64 `bson:"temperature"`
	Humidity    float64 `bson:"humidity"`
}

func buckets(ctx context.Context, w *world) error {
	for name, end := range map[timeseries.EndTime]string{timeseries.LastMillisecond: "2019-01-31T10:59:59.999Z", timeseries.LastSecond: "2019-01-31T10:59:59Z"} {
		if err := hours(ctx, w, fmt.Sprint("hours_", name), name, end); err != nil {
			return err
		}
	}
	return days(ctx, w)
}

// hours: arrays by the hour, the mean from the sum and the count alone, and an archive.
func hours(ctx context.Context, w *world, name string, end timeseries.EndTime, stored string) error {
	sensors, err := bucket.New[int, reading](w.coll(name), timeseries.Every(time.Hour), &bucket.Options{
		SeriesField: "sensor_id", StartField: "start_date", EndField: "end_date", EndTime: end, CountField: "transaction_count",
		Values: []timeseries.Value{{Field: "temperature", Sum: "sum_temperature"}},
	})
	if err != nil {
		return err
	}
	if err := ensure(ctx, sensors); err != nil {
		return err
	}
	ten := time.Date(2019, time.January, 31, 10, 0, 0, 0, time.UTC)
	for i, t := range []int{40, 40, 41} {
		if _, err := sensors.Append(ctx, 12345, reading{ten.Add(time.Duration(i) * time.Minute), t}); err != nil {
			return err
		}
	}
	three := ten.Add(5 * time.Hour)
	if _, err := sensors.Append(ctx, 12345, reading{three, 20}); err != nil {
		return err
	}
	want := `{"_id": {"sensor_id": 12345, "start_date": {"$date": "2019-01-31T10:00:00Z"}, "n": 0},
		"sensor_id": 12345, "start_date": {"$date": "2019-01-31T10:00:00Z"}, "end_date": {"$date": "` + stored + `"},
		"measurements": [{"timestamp": {"$date": "2019-01-31T10:00:00Z"}, "temperature": 40}, {"timestamp": {"$date": "2019-01-31T10:01:00Z"}, "temperature": 40},
			{"timestamp": {"$date": "2019-01-31T10:02:00Z"}, "temperature": 41}],
		"transaction_count": 3, "sum_temperature": 121}`
	if err := w.stored(ctx, name, bson.D{{Key: "start_date", Value: ten}}, want); err != nil {
		return err
	}
	p, err := w.by(ctx, name, "sensor_id start_date", false, func() error {
		stats, err := sensors.Aggregate(ctx, 12345, ten, ten.Add(6*time.Hour))
		if err != nil {
			return err
		}
		return equal("mean", fmt.Sprint(stats.Count, stats.Values["temperature"].Mean()), "4 35.25")
	})
	if err != nil {
		return err
	}
	if p.keys > 3 || p.docs > 2 {
		return fmt.Errorf("two buckets: %d keys, %d documents", p.keys, p.docs)
	}
	moved, err := sensors.Archive(ctx, three, w.coll(name+"_archive"), nil)
	if err != nil {
		return err
	}
	return first(
		func() error { return equal("archived", moved.Done, "1") },
		func() error { return w.stored(ctx, name+"_archive", bson.D{}, want) },
	)
}

// days: a place for each minute; the published form has the day as a string.
func days(ctx context.Context, w *world) error {
	sensors, err := slots.New[string, climate](w.coll("days"), timeseries.Days(time.UTC), &slots.Options{SeriesField: "sensor_id", StartField: "created_time"})
	if err != nil {
		return err
	}
	if err := ensure(ctx, sensors); err != nil {
		return err
	}
	if err := w.put(ctx, "days", `{"_id": 1, "sensor_id": "SENSOR-1", "created_time": "2021-07-05 00:00:00", "data": {"0": {"0": {"temperature": 21.36, "humidity": 0.67}}}}`); err != nil {
		return err
	}
	if _, err := sensors.Adopt(ctx, nil, nil); err != nil {
		return err
	}
	day := time.Date(2021, time.July, 5, 0, 0, 0, 0, time.UTC)
	late := day.Add(23*time.Hour + 59*time.Minute)
	update, err := w.plans(ctx, "days", func() error { return sensors.Set(ctx, "SENSOR-1", late, climate{20.5, 0.5}) })
	if err != nil {
		return err
	}
	if len(update) != 1 {
		return fmt.Errorf("%d commands for a write", len(update))
	}
	if err := w.stored(ctx, "days", bson.D{}, `{"_id": "*", "sensor_id": "SENSOR-1", "created_time": {"$date": "2021-07-05T00:00:00Z"},
		"data": {"0": {"0": {"temperature": 21.36, "humidity": 0.67}}, "23": {"59": {"temperature": 20.5, "humidity": 0.5}}}}`); err != nil {
		return err
	}
	_, err = w.by(ctx, "days", "sensor_id created_time", false, func() error {
		one, err := sensors.Get(ctx, "SENSOR-1", day)
		if err != nil {
			return err
		}
		n := 0
		for _, err := range sensors.Range(ctx, "SENSOR-1", day, day.Add(time.Hour)) {
			if err != nil {
				return err
			}
			n++
		}
		return equal("a minute, and an hour", fmt.Sprint(one, n), "{21.36 0.67} 1")
	})
	return err
}

func attributes(ctx context.Context, w *world) error {
	return first(
		func() error { return films(ctx, w) },
		func() error { return bottles(ctx, w) },
		func() error { return tickets(ctx, w) },
	)
}

func films(ctx context.Context, w *world) error {
	releases, err := attribute.New[int, time.Time](w.coll("films"), &attribute.Options{ArrayField: "releases", KeyField: "location", ValueField: "date"})
	if err != nil {
		return err
	}
	if err := ensure(ctx, releases); err != nil {
		return err
	}
	if err := w.put(ctx, "films", `{"_id": 1, "title": "Star Wars", "release_US": {"$date": "1977-05-20T01:00:00+01:00"}, "release_France": {"$date": "1977-10-19T00:00:00Z"},
		"release_Italy": {"$date": "1977-10-20T00:00:00Z"}, "release_UK": {"$date": "1977-12-27T00:00:00Z"}}`); err != nil {
		return err
	}
	_, err = releases.Adopt(ctx, []attribute.Column{{Path: "release_US", Key: "USA"}, {Path: "release_France", Key: "France"},
		{Path: "release_Italy", Key: "Italy"}, {Path: "release_UK", Key: "UK"}}, nil)
	if err != nil {
		return err
	}
	if err := w.stored(ctx, "films", bson.D{}, `{"_id": 1, "title": "Star Wars", "releases": [{"location": "USA", "date": {"$date": "1977-05-20T00:00:00Z"}},
		{"location": "France", "date": {"$date": "1977-10-19T00:00:00Z"}}, {"location": "Italy", "date": {"$date": "1977-10-20T00:00:00Z"}},
		{"location": "UK", "date": {"$date": "1977-12-27T00:00:00Z"}}]}`); err != nil {
		return err
	}
	month := time.Date(1977, time.October, 1, 0, 0, 0, 0, time.UTC)
	_, err = w.by(ctx, "films", "releases.location releases.date", true, func() error {
		n, err := w.count(ctx, "films", releases.Filter(releases.Range(attribute.Named("Italy"), month, month.AddDate(0, 1, 0))))
		if err != nil {
			return err
		}
		return equal("in Italy in October", n, "1")
	})
	return err
}

func bottles(ctx context.Context, w *world) error {
	specs, err := attribute.New[int, string](w.coll("bottles"), &attribute.Options{ArrayField: "specs", QualifierField: "u"})
	if err != nil {
		return err
	}
	if err := ensure(ctx, specs); err != nil {
		return err
	}
	volume := attribute.Named("volume")
	if err := w.put(ctx, "bottles", `{"_id": 1, "title": "Spring water"}`); err != nil {
		return err
	}
	err = first(
		func() error { return specs.Add(ctx, 1, volume.Qualified("ml"), "500") },
		func() error { return specs.Add(ctx, 1, volume.Qualified("ounces"), "12") },
		func() error {
			return w.stored(ctx, "bottles", bson.D{}, `{"_id": 1, "title": "Spring water", "specs": [{"k": "volume", "v": "500", "u": "ml"}, {"k": "volume", "v": "12", "u": "ounces"}]}`)
		},
	)
	if err != nil {
		return err
	}
	_, err = w.by(ctx, "bottles", "specs.k specs.u specs.v", true, func() error {
		n, err := w.count(ctx, "bottles", specs.Filter(specs.Equals(volume.Qualified("ml"), "12")))
		if err != nil {
			return err
		}
		return equal("of 12 ml", n, "0")
	})
	return err
}

func tickets(ctx context.Context, w *world) error {
	prices, err := attribute.New[int, int](w.coll("tickets"), &attribute.Options{
		ArrayField: "provider", KeyField: "channel", ValueField: "price",
		Indexes: []attribute.Index{{Prefix: []string{"scheduleId", "movie"}, KeyOnly: true}, {KeyOnly: true}},
	})
	if err != nil {
		return err
	}
	if err := ensure(ctx, prices); err != nil {
		return err
	}
	stored := `{"_id": 1, "scheduleId": "0001", "movie": "你的名字", "provider": [{"channel": "gewala", "price": 30}, {"channel": "maoyan", "price": 50}, {"channel": "taopiao", "price": 20}]}`
	if err := w.put(ctx, "tickets", `{"_id": 1, "scheduleId": "0001", "movie": "你的名字"}`); err != nil {
		return err
	}
	for _, p := range []attribute.Attribute[int]{{Key: "gewala", Value: 30}, {Key: "maoyan", Value: 50}, {Key: "taopiao", Value: 20}} {
		if err := prices.Set(ctx, 1, attribute.Named(p.Key), p.Value); err != nil {
			return err
		}
	}
	if err := w.stored(ctx, "tickets", bson.D{}, stored); err != nil {
		return err
	}
	_, err = w.by(ctx, "tickets", "scheduleId movie provider.channel", true, func() error {
		price, err := prices.GetBy(ctx, bson.D{{Key: "scheduleId", Value: "0001"}, {Key: "movie", Value: "你的名字"}}, attribute.Named("taopiao"))
		if err != nil {
			return err
		}
		return equal("price", price, "20")
	})
	if err != nil {
		return err
	}
	_, err = w.by(ctx, "tickets", "provider.channel", true, func() error {
		n := 0
		for v, err := range prices.Values(ctx, nil, attribute.Named("maoyan")) {
			if err != nil || v.Value != 50 {
				return fmt.Errorf("%+v, %w", v, err)
			}
			n++
		}
		return equal("screenings of maoyan", n, "1")
	})
	return err
}

func outliers(ctx context.Context, w *world) error {
	books, err := outlier.New[int, string](w.coll("books"), w.coll("book_extras"), &outlier.Options{
		ArrayField: "customers_purchased", FlagField: "has_extras", ParentField: "book_id", Set: true,
	})
	if err != nil {
		return err
	}
	invited, err := outlier.New[string, string](w.coll("meetings"), w.coll("meeting_invitees"), &outlier.Options{ArrayField: "invitees", ParentField: "meeting", Set: true, MaxCount: 100})
	if err != nil {
		return err
	}
	if err := ensure(ctx, books, invited); err != nil {
		return err
	}
	users := func(from, to int) []string {
		var out []string
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprintf("user%02d", i))
		}
		return out
	}
	quoted := func(names []string) string { return `["` + strings.Join(names, `", "`) + `"]` }
	// As published: the flag is a string, the extras have no number and no flag of theirs.
	err = w.put(ctx, "books", `{"_id": 1, "title": "The Colour of Birch", "author": "A", "customers_purchased": ["user00"]}`,
		`{"_id": 2, "title": "Harbour Lights", "author": "B", "customers_purchased": `+quoted(users(0, 1000))+`, "has_extras": "true"}`,
		`{"_id": 3, "title": "Salt", "author": "C", "customers_purchased": `+quoted(users(0, 1000))+`}`)
	if err == nil {
		err = w.put(ctx, "book_extras", `{"_id": 1, "book_id": 2, "customers_purchased": `+quoted(users(1000, 1200))+`}`)
	}
	if err != nil {
		return err
	}
	if _, err := books.Adopt(ctx, nil); err != nil {
		return err
	}
	adopted := `{"_id": 2, "title": "Harbour Lights", "author": "B", "customers_purchased": ` + quoted(users(700, 1200)) + `,
		"has_extras": true, "customers_purchased_outside": 700, "customers_purchased_moved": "*"}`
	err = first(
		func() error { return w.stored(ctx, "books", doc(`{"_id": 2}`), adopted) },
		func() error {
			return w.stored(ctx, "book_extras", bson.D{}, `{"_id": "*", "book_id": 2, "n": 0, "customers_purchased": `+quoted(users(0, 700))+`}`)
		},
	)
	if err != nil {
		return err
	}
	if _, err := books.Add(ctx, 1, "user01"); err != nil {
		return err
	}
	if err := w.stored(ctx, "books", doc(`{"_id": 1}`), `{"_id": 1, "title": "The Colour of Birch", "author": "A", "customers_purchased": ["user00", "user01"]}`); err != nil {
		return err
	}
	if _, err := books.Add(ctx, 3, "user1000"); err != nil {
		return err
	}
	// The older half of the 1,001 went out, in the order in which they came.
	err = first(
		func() error {
			return w.stored(ctx, "books", doc(`{"_id": 3}`), `{"_id": 3, "title": "Salt", "author": "C", "customers_purchased": `+quoted(users(501, 1001))+`,
				"has_extras": true, "customers_purchased_outside": 501, "customers_purchased_moved": "*"}`)
		},
		func() error {
			return w.stored(ctx, "book_extras", doc(`{"book_id": 3}`), `{"_id": "*", "book_id": 3, "n": 0, "customers_purchased": `+quoted(users(0, 501))+`}`)
		},
		func() error { return clean(books.Check(ctx, nil)) },
	)
	if err != nil {
		return err
	}
	_, err = w.by(ctx, "book_extras", "book_id n", false, func() error {
		n := 0
		for name, err := range books.All(ctx, 2) {
			if err != nil || name == "" {
				return err
			}
			n++
		}
		return equal("buyers", n, "1200")
	})
	if err != nil {
		return err
	}
	if err := w.put(ctx, "meetings", `{"_id": "all hands"}`); err != nil {
		return err
	}
	if _, err := invited.Add(ctx, "all hands", users(0, 250)...); err != nil {
		return err
	}
	total, err := invited.Total(ctx, "all hands")
	if err != nil {
		return err
	}
	return equal("invited", total, "250")
}

type review struct {
	ID     int       `bson:"_id"`
	Text   string    `bson:"text"`
	Rating int       `bson:"rating"`
	Date   time.Time `bson:"date"`
}

type message struct {
	ID   int       `bson:"_id"`
	Text string    `bson:"text"`
	Time time.Time `bson:"time"`
}

func subsets(ctx context.Context, w *world) error {
	reviews, err := subset.New[int, review](w.coll("products"), w.coll("reviews"), &subset.Options{
		ParentField: "product_id", ArrayField: "reviews", Sort: bson.D{{Key: "date", Value: -1}}, CountField: "num_reviews",
	})
	if err != nil {
		return err
	}
	logs, err := subset.New[string, message](w.coll("hosts"), w.coll("messages"), &subset.Options{
		ParentField: "host", ArrayField: "logs", N: 1000, BestLast: true, Sort: bson.D{{Key: "time", Value: -1}},
	})
	if err != nil {
		return err
	}
	if err := ensure(ctx, reviews, logs); err != nil {
		return err
	}
	if err := first(func() error { return w.put(ctx, "products", `{"_id": 1, "name": "Baseball bat"}`) }, func() error { return w.put(ctx, "hosts", `{"_id": "web1"}`) }); err != nil {
		return err
	}
	day := time.Date(2019, time.February, 1, 0, 0, 0, 0, time.UTC)
	var newest []string
	for i := 1; i <= 12; i++ {
		date := day.AddDate(0, 0, i-1)
		if _, err := reviews.Insert(ctx, 1, review{i, "good", 5, date}); err != nil {
			return err
		}
		if i > 2 {
			newest = append([]string{fmt.Sprintf(`{"_id": %d, "text": "good", "rating": 5, "date": {"$date": %q}}`, i, date.Format(time.RFC3339))}, newest...)
		}
	}
	err = first(
		func() error {
			return w.stored(ctx, "products", bson.D{}, `{"_id": 1, "name": "Baseball bat", "num_reviews": 12, "reviews": [`+strings.Join(newest, ", ")+`]}`)
		},
		func() error {
			return w.stored(ctx, "reviews", doc(`{"_id": 1}`), `{"_id": 1, "product_id": 1, "text": "good", "rating": 5, "date": {"$date": "2019-02-01T00:00:00Z"}}`)
		},
	)
	if err != nil {
		return err
	}
	_, err = w.by(ctx, "reviews", "product_id date _id", false, func() error {
		n := 0
		for _, err := range reviews.All(ctx, 1) {
			if err != nil {
				return err
			}
			n++
		}
		return equal("reviews", n, "12")
	})
	if err != nil {
		return err
	}
	// The log host: the newest 1,000 are the last 1,000, as $push with $slice: -1000 has it.
	var messages []message
	for i := range 1005 {
		messages = append(messages, message{i, "m", day.Add(time.Duration(i) * time.Second)})
	}
	_, err = logs.InsertMany(ctx, func(yield func(string, message) bool) {
		for _, m := range messages {
			if !yield("web1", m) {
				return
			}
		}
	}, nil)
	if err != nil {
		return err
	}
	var host struct{ Logs []message }
	if err := w.coll("hosts").FindOne(ctx, bson.D{}).Decode(&host); err != nil {
		return err
	}
	all, err := w.count(ctx, "messages", bson.D{})
	if err != nil {
		return err
	}
	if err := equal("log host", fmt.Sprint(len(host.Logs), host.Logs[0].ID, host.Logs[999].ID, all), "1000 5 1004 1005"); err != nil {
		return err
	}
	return movies(ctx, w)
}

type movie struct {
	ID        int       `bson:"_id"`
	Title     string    `bson:"title"`
	Year      int       `bson:"year"`
	Runtime   int       `bson:"runtime"`
	Released  time.Time `bson:"released"`
	Type      string    `bson:"type"`
	Directors []string  `bson:"directors"`
	Countries []string  `bson:"countries"`
	Genres    []string  `bson:"genres"`
}

type details struct {
	Poster      string    `bson:"poster"`
	Plot        string    `bson:"plot"`
	FullPlot    string    `bson:"fullplot"`
	LastUpdated time.Time `bson:"lastupdated"`
	IMDB        bson.D    `bson:"imdb"`
	Tomatoes    bson.D    `bson:"tomatoes"`
}

// movies: hot and cold fields, split out of one collection.
func movies(ctx context.Context, w *world) error {
	halves, err := split.New[int, movie, details](w.coll("movie"), w.coll("movie_details"), &split.Options{IDField: "movie_id"})
	if err != nil {
		return err
	}
	if err := ensure(ctx, halves); err != nil {
		return err
	}
	hot := `"title": "The Arrival of a Train", "year": 1896, "runtime": 1, "released": {"$date": "1896-01-25T00:00:00Z"}, "type": "movie",
		"directors": ["Auguste Lumière", "Louis Lumière"], "countries": ["France"], "genres": ["Documentary", "Short"]`
	cold := `"poster": "train.jpg", "plot": "A train arrives.", "fullplot": "A train arrives at La Ciotat.", "lastupdated": {"$date": "2015-08-15T00:00:00Z"},
		"imdb": {"rating": 7.3, "votes": 5043, "id": 12}, "tomatoes": {"rating": 3.7}`
	if err := w.put(ctx, "movie", `{"_id": 1, `+hot+`, `+cold+`}`); err != nil {
		return err
	}
	if _, err := halves.Adopt(ctx, nil); err != nil {
		return err
	}
	err = first(
		func() error { return w.stored(ctx, "movie", bson.D{}, `{"_id": 1, `+hot+`}`) },
		func() error { return w.stored(ctx, "movie_details", bson.D{}, `{"_id": "*", "movie_id": 1, `+cold+`}`) },
	)
	if err != nil {
		return err
	}
	if _, err := w.plans(ctx, "movie_details", func() error { _, err := halves.GetHot(ctx, 1); return err }); err == nil {
		return fmt.Errorf("a list entry read the details")
	}
	_, err = w.by(ctx, "movie_details", "movie_id", false, func() error {
		d, err := halves.GetCold(ctx, 1)
		if err != nil {
			return err
		}
		return equal("plot", d.Plot, "A train arrives.")
	})
	return err
}
