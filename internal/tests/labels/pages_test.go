package labels_test

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Large documents and long lists of documents: split, paging, attribute, and what only looks like them.
func pageCases() []labelled {
	countries := []string{"USA", "France", "Italy", "Spain", "Japan", "Brazil", "India", "Mexico", "Norway", "Poland", "Chile", "Egypt"}
	specs := []string{
		"voltage", "current", "power", "weight", "length", "width", "bore", "thread", "torque", "flow", "pressure", "ip_class", "color", "lumen",
		"ratio", "pitch",
	}
	channels := []string{"web", "app", "amazon", "ebay", "otto", "filiale", "messe", "partner", "b2b", "export"}
	facilities := []string{"pool", "spa", "gym", "beach", "parking", "lift", "ski", "golf", "bar", "kids", "pets", "wifi"}
	params := []string{
		"pressure", "speed", "feed", "temperature", "clamp", "cycle", "coolant", "spindle", "axis", "load", "vacuum", "dose", "angle",
		"gap", "dwell", "stroke",
	}
	return []labelled{
		{
			name: "articles", service: "media", pays: "split",
			why: "lists read title and teaser of documents that are nearly all body",
			colls: []coll{{name: "articles", n: 500, indexes: []string{"section,published"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(14, i), "section", g.IntN(8), "title", g.text(50), "author", g.name(), "published", at(i),
					"teaser", g.text(120), "body", g.text(g.between(6000, 12_000)))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("articles", d("section", s.IntN(8)), by{sort: d("published", -1), limit: 20,
						fields: d("title", 1, "author", 1, "published", 1, "teaser", 1)})
				}},
				{15, func(s *session, _ int) { s.one("articles", d("_id", oid(14, s.IntN(500))), nil) }},
			},
		},
		{
			name: "emails", service: "crm", pays: "split",
			why: "the mailbox's list leaves both bodies out, and a mail is opened far less often",
			colls: []coll{{name: "emails", n: 700, indexes: []string{"mailbox,received"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", oid(15, i), "mailbox", g.IntN(10), "from", g.name(), "to", a{g.name()}, "subject", g.text(40),
					"received", at(i),
					"bodyText", g.text(g.between(1000, 3000)), "bodyHtml", g.text(g.between(3000, 8000)))
				if i%15 == 0 {
					return doc[:7] // old mails have no HTML
				}
				return doc
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("emails", d("mailbox", s.IntN(10)), by{sort: d("received", -1), limit: 30, fields: d("bodyText", 0,
						"bodyHtml", 0)})
				}},
				{20, func(s *session, _ int) { s.one("emails", d("_id", oid(15, s.IntN(700))), nil) }},
			},
		},
		{
			name: "documents", service: "health", pays: "split",
			why: "the patient's file lists title and date, and the recognized text and the thumbnail are most of the bytes",
			colls: []coll{{name: "documents", n: 400, indexes: []string{"patientId,date"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(16, i), "patientId", g.IntN(60), "date", at(i), "title", g.text(30), "kind", g.of("letter", "scan"),
					"ocr", d("text", g.text(8000), "engine", "v2"), "thumb", g.blob(3000))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("documents", d("patientId", s.IntN(60)), by{sort: d("date", -1), fields: d("title", 1, "date", 1, "kind", 1)})
				}},
				{12, func(s *session, _ int) { s.one("documents", d("_id", oid(16, s.IntN(400))), nil) }},
			},
		},
		{
			name: "students", service: "school", pays: "split",
			why: "the class list reads names, and each document carries a photo of 12 kB",
			colls: []coll{{name: "students", n: 300, indexes: []string{"class"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "class", g.IntN(15), "firstName", g.name(), "born", at(i).AddDate(-14, 0, 0), "photo", g.blob(12_000))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.find("students", d("class", s.IntN(15)), by{fields: d("firstName", 1, "born", 1)})
				}},
				{10, func(s *session, _ int) { s.one("students", d("_id", s.IntN(300)), nil) }},
			},
		},
		{
			name: "offers", service: "travel", pays: "split",
			why: "the search's aggregation projects price and title, and terms and description are nine tenths of the bytes",
			colls: []coll{{name: "offers", n: 600, indexes: []string{"region,price"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(17, i), "region", g.IntN(10), "price", g.money(), "title", g.text(40), "nights", g.between(2, 14),
					"longDescription", g.text(3500), "terms", g.text(5000))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("offers", d("$match", d("region", s.IntN(10),
						"price", d("$lt", s.between(50, 200)))), d("$sort", d("price", 1)),
						d("$limit", 20), d("$project", d("title", 1, "price", 1, "nights", 1)))
				}},
				{12, func(s *session, _ int) { s.one("offers", d("_id", oid(17, s.IntN(600))), nil) }},
			},
		},
		{
			name: "drawings", service: "plant", pays: "split",
			why: "a machine's drawings are listed by name and revision, and each holds 20 kB of SVG",
			colls: []coll{{name: "drawings", n: 250, indexes: []string{"machine"}, doc: func(g gen, i int) bson.D {
				return d("_id", fmt.Sprint("DWG-", i), "machine", g.IntN(25), "name", g.text(25), "rev", g.between(1, 9),
					"svg", g.text(20_000))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.find("drawings", d("machine", s.IntN(25)), by{fields: d("_id", 0, "name", 1, "rev", 1)})
				}},
				{10, func(s *session, _ int) { s.one("drawings", d("_id", fmt.Sprint("DWG-", s.IntN(250))), nil) }},
			},
		},
		{
			name: "artikel", service: "shop", pays: "split",
			why: "the list reads name and price, and description and technical data are needed on the page of one article only",
			colls: []coll{{name: "artikel", n: 500, indexes: []string{"gruppe"}, doc: func(g gen, i int) bson.D {
				return d("_id", fmt.Sprintf("A%05d", i), "gruppe", g.IntN(20), "name", g.text(30), "preis", g.money(),
					"beschreibung", g.text(3000), "technischeDaten", d("handbuch", g.text(2500), "hinweise", g.text(1500)))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("artikel", d("gruppe", s.IntN(20)), by{fields: d("name", 1, "preis", 1), limit: 25})
				}},
				{18, func(s *session, _ int) { s.one("artikel", d("_id", fmt.Sprintf("A%05d", s.IntN(500))), nil) }},
			},
		},
		{
			name: "recipes", service: "media", harm: "split",
			why: "nearly every read shows the whole recipe, so a split would make two reads of one",
			colls: []coll{{name: "recipes", n: 400, indexes: []string{"slug"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "slug", fmt.Sprint("recipe-", i), "title", g.text(30), "story", g.text(3500),
					"steps", list(8, func(int) any { return g.text(150) }))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("recipes", d("slug", fmt.Sprint("recipe-", s.IntN(400))), nil) }},
				{15, func(s *session, _ int) {
					s.find("recipes", d("_id", d("$gt", s.IntN(380))), by{fields: d("title", 1), limit: 10})
				}},
			},
		},
		{
			name: "lab_reports", service: "health",
			why: "reads project, but the large field is what they ask for",
			colls: []coll{{name: "lab_reports", n: 400, indexes: []string{"patient"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(18, i), "patient", g.IntN(60), "taken", at(i), "lab", g.name(), "findings", g.text(4000))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("lab_reports", d("patient", s.IntN(60)), by{fields: d("taken", 1, "findings", 1)})
				}},
			},
		},
		{
			name: "contacts", service: "crm",
			why: "lists project three fields of documents that have 300 bytes in all",
			colls: []coll{{name: "contacts", n: 2000, indexes: []string{"accountId", "email"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", oid(19, i), "accountId", g.IntN(150), "name", g.name(), "email", fmt.Sprint("c", i, "@example.com"),
					"phone", fmt.Sprint("+49 30 ", i), "memo", g.text(90))
				if i%3 == 0 {
					doc = append(doc, bson.E{Key: g.of("twitter", "linkedin", "xing", "mastodon"), Value: g.text(12)})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("contacts", d("accountId", s.IntN(150)), by{fields: d("name", 1, "email", 1)})
				}},
				{60, func(s *session, _ int) {
					s.one("contacts", d("email", fmt.Sprint("c", s.IntN(2000), "@example.com")), nil)
				}},
			},
		},
		{
			name: "essays", service: "school", harm: "split",
			why: "half of the reads grade the text, so moving it away doubles their cost",
			colls: []coll{{name: "essays", n: 300, indexes: []string{"course"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "course", g.IntN(20), "student", g.name(), "grade", g.between(1, 6), "text", g.text(5000))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.find("essays", d("course", s.IntN(20)), by{fields: d("student", 1, "grade", 1)})
				}},
				{80, func(s *session, _ int) { s.one("essays", d("_id", s.IntN(300)), d("student", 1, "text", 1)) }},
			},
		},
		{
			name: "feed", service: "media", pays: "paging",
			why: "readers and crawlers go to pages thousands of comments deep by skip",
			colls: []coll{{name: "feed", n: 5000, indexes: []string{"created"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(20, i), "created", minute(i), "by", g.name(), "text", g.text(80))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.find("feed", bson.D{}, by{sort: d("created", -1), skip: 25 * s.IntN(180), limit: 25})
				}},
				{20, func(s *session, i int) {
					s.insert("feed", d("_id", oid(20, 5000+i), "created", minute(5000+i), "by", s.name(), "text", s.text(80)))
				}},
			},
		},
		{
			name: "activities", service: "crm", pays: "paging",
			why: "the largest tenant exports its timeline page by page, each page walking over all before it",
			colls: []coll{{name: "activities", n: 5000, indexes: []string{"tenantId,occurredAt"}, doc: func(g gen, i int) bson.D {
				tenant := "acme"
				if i%5 == 0 {
					tenant = g.of("blue", "corp", "delta")
				}
				return d("_id", oid(21, i), "tenantId", tenant, "occurredAt", minute(i), "type", g.of("call", "mail", "visit"),
					"note", g.text(50))
			}}},
			traffic: []requests{
				{90, func(s *session, i int) {
					s.find("activities", d("tenantId", "acme"), by{sort: d("occurredAt", -1), skip: 40 * i, limit: 40})
				}},
				{40, func(s *session, _ int) {
					s.find("activities", d("tenantId", s.of("blue", "corp", "delta")), by{sort: d("occurredAt", -1), limit: 40})
				}},
			},
		},
		{
			name: "buchungen", service: "bank", pays: "paging",
			why: "a statement's aggregation sorts, skips thousands of bookings and limits",
			colls: []coll{{name: "buchungen", n: 4500, indexes: []string{"konto,wertstellung"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "konto", fmt.Sprint("K", g.near(4)), "wertstellung", minute(i), "betrag", g.money(), "text", g.text(40))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					s.aggregate("buchungen", d("$match", d("konto",
						"K0")), d("$sort", d("wertstellung", -1)), d("$skip", 50*s.IntN(50)), d("$limit", 50))
				}},
			},
		},
		{
			name: "catalog_items", service: "shop", pays: "paging",
			why: "a nightly export reads the collection by growing skips, a quadratic scan",
			colls: []coll{{name: "catalog_items", n: 6000, doc: func(g gen, i int) bson.D {
				return d("_id", i, "sku", fmt.Sprint("S", i), "name", g.text(20), "price", g.money())
			}}},
			traffic: []requests{
				{60, func(s *session, i int) {
					s.find("catalog_items", bson.D{}, by{sort: d("_id", 1), skip: 100 * i, limit: 100})
				}},
				{60, func(s *session, _ int) { s.one("catalog_items", d("_id", s.IntN(6000)), nil) }},
			},
		},
		{
			name: "audit_trail", service: "health", pays: "paging",
			why: "auditors page by skip through thousands of entries, whose times are text",
			colls: []coll{{name: "audit_trail", n: 4000, indexes: []string{"when"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(22, i), "when", minute(i).Format(time.RFC3339), "who", g.name(), "what", g.of("read",
					"print", "change"), "file", g.IntN(900))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.find("audit_trail", bson.D{}, by{sort: d("when", -1), skip: 50 * s.IntN(75), limit: 50})
				}},
			},
		},
		{
			name: "moderation", service: "travel", pays: "paging",
			why: "moderators work through thousands of texts in the order of a score, by skip",
			colls: []coll{{name: "moderation", n: 4000, indexes: []string{"state,meta.score"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(23, i), "state", g.of("new", "new", "new", "ok"), "meta", d("score", g.Float64(), "lang",
					"en"), "text", g.text(90))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.find("moderation", d("state", "new"), by{sort: d("meta.score", -1), skip: 20 * s.IntN(140), limit: 20})
				}},
			},
		},
		{
			name: "news", service: "media",
			why: "nobody goes beyond the third page, where skip costs nothing that one notices",
			colls: []coll{{name: "news", n: 4000, indexes: []string{"published"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "published", minute(i), "title", g.text(50))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("news", bson.D{}, by{sort: d("published", -1), skip: 20 * s.IntN(3), limit: 20})
				}},
			},
		},
		{
			name: "deals", service: "crm",
			why: "there are 400 deals, so that the last page is near, too",
			colls: []coll{{name: "deals", n: 400, indexes: []string{"value"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(24, i), "value", g.money(), "stage", g.of("new", "won", "lost"), "title", g.text(30))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.find("deals", bson.D{}, by{sort: d("value", -1), skip: 20 * s.IntN(19), limit: 20})
				}},
			},
		},
		{
			name: "statements", service: "bank",
			why: "the pages are ranges of an index already, from the last entry of the page before",
			colls: []coll{{name: "statements", n: 4000, indexes: []string{"acct,no"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "acct", i%4, "no", i/4, "total", g.money())
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("statements", d("acct", i%4, "no", d("$lt", s.IntN(1000))), by{sort: d("no", -1), limit: 25})
				}},
			},
		},
		{
			name: "stores", service: "shop",
			why: "the aggregation skips two pages at most",
			colls: []coll{{name: "stores", n: 1500, indexes: []string{"country,name"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "country", g.of("DE", "FR", "IT"), "name", g.text(20), "zip", g.between(10000, 99999))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.aggregate("stores", d("$match", d("country", s.of("DE", "FR",
						"IT"))), d("$sort", d("name", 1)), d("$skip", 20*s.IntN(3)), d("$limit", 20))
				}},
			},
		},
		{
			name: "films", service: "media", pays: "attribute",
			why: "a field and an index for the release in each country, as in MongoDB's article",
			colls: []coll{{name: "films", n: 1500, indexes: prefixed("release_", countries), doc: func(g gen, i int) bson.D {
				doc := d("_id", oid(25, i), "title", g.text(25), "director", g.name())
				for _, c := range g.some(countries, g.between(2, 5)) {
					doc = append(doc, bson.E{Key: "release_" + c, Value: at(g.IntN(9000))})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("films", d("release_"+countries[i%len(countries)], d("$gte", at(s.IntN(9000)))), by{limit: 20})
				}},
			},
		},
		{
			name: "parts", service: "shop", pays: "attribute",
			why: "specifications that few parts share each have an index of their own",
			colls: []coll{{name: "parts", n: 2000, indexes: prefixed("specs.", specs), doc: func(g gen, i int) bson.D {
				sub := bson.D{}
				for _, f := range g.some(specs, g.between(2, 5)) {
					sub = append(sub, bson.E{Key: f, Value: g.IntN(400)})
				}
				return d("_id", i, "name", g.text(25), "specs", sub)
			}}},
			traffic: []requests{
				{160, func(s *session, i int) { s.find("parts", d("specs."+specs[i%len(specs)], s.IntN(400)), by{limit: 50}) }},
			},
		},
		{
			name: "preise", service: "shop", pays: "attribute",
			why: "there is a price field and an index for each channel, and an article is sold in a few channels only",
			colls: []coll{{name: "preise", n: 1500, indexes: prefixed("preis_", channels), doc: func(g gen, i int) bson.D {
				doc := d("_id", fmt.Sprintf("A%05d", i), "gruppe", g.IntN(30))
				for _, c := range g.some(channels, g.between(1, 4)) {
					doc = append(doc, bson.E{Key: "preis_" + c, Value: g.money()})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					low := s.money()
					s.find("preise", d("preis_"+channels[i%len(channels)], d("$gte", low, "$lt", low+10)), by{})
				}},
			},
		},
		{
			name: "lodgings", service: "travel", pays: "attribute",
			why: "distances to a dozen facilities, which most lodgings lack, with an index each",
			colls: []coll{{name: "lodgings", n: 1200, indexes: prefixed("facilities.", facilities), doc: func(g gen, i int) bson.D {
				sub := bson.D{}
				for _, f := range g.some(facilities, g.between(1, 5)) {
					sub = append(sub, bson.E{Key: f, Value: g.IntN(3000)})
				}
				return d("_id", oid(26, i), "name", g.text(20), "facilities", sub)
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("lodgings", d("facilities."+facilities[i%len(facilities)], d("$lte", s.IntN(500))), by{limit: 30})
				}},
			},
		},
		{
			name: "machines", service: "plant", pays: "attribute",
			why: "sixteen optional parameters are searched, far too many for an index each, so that there is none",
			colls: []coll{{name: "machines", n: 1500, doc: func(g gen, i int) bson.D {
				doc := d("_id", fmt.Sprint("M", i), "hall", g.IntN(5))
				for _, p := range g.some(params, g.between(2, 6)) {
					doc = append(doc, bson.E{Key: "param_" + p, Value: g.IntN(1000)})
				}
				return doc
			}}},
			traffic: []requests{
				{160, func(s *session, i int) { s.find("machines", d("param_"+params[i%len(params)], s.IntN(1000)), by{}) }},
			},
		},
		{
			name: "songs", service: "media", harm: "attribute",
			why: "every song has every field, and two of them are searched",
			colls: []coll{{name: "songs", n: 1500, indexes: []string{"tempo", "energy"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", i, "title", g.text(20))
				for _, f := range []string{"tempo", "energy", "danceability", "loudness", "speechiness", "valence", "liveness", "acousticness"} {
					doc = append(doc, bson.E{Key: f, Value: g.IntN(200)})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("songs", d([]string{"tempo", "energy"}[i%2], s.IntN(200)), by{limit: 20})
				}},
			},
		},
		{
			name: "vitals", service: "health", harm: "attribute",
			why: "a dozen optional measures stand side by side, but they are shown with their patient and never searched",
			colls: []coll{{name: "vitals", n: 1500, indexes: []string{"patient"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", i, "patient", g.IntN(400))
				for _, f := range g.some([]string{"sys", "dia", "pulse", "spo2", "temp", "glucose", "weight", "bmi", "pain", "peak", "ecg", "rr"}, 4) {
					doc = append(doc, bson.E{Key: f, Value: g.IntN(200)})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("vitals", d("patient", s.IntN(400)), by{}) }},
			},
		},
		{
			name: "workorders", service: "plant", harm: "attribute",
			why: "six indexes, but on different things that each order has",
			colls: []coll{{name: "workorders", n: 1500, indexes: []string{
				"status", "assignee", "due", "line", "priority", "product",
			}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "status", g.of("open", "done", "late"), "assignee", g.IntN(50), "due", at(i),
					"line", g.IntN(9), "priority", g.IntN(5),
					"product", g.IntN(300))
			}}},
			traffic: []requests{
				{40, func(s *session, _ int) { s.find("workorders", d("assignee", s.IntN(50)), by{limit: 20}) }},
				{40, func(s *session, _ int) { s.find("workorders", d("product", s.IntN(300)), by{}) }},
				{40, func(s *session, _ int) {
					s.find("workorders", d("due", d("$lt", at(s.IntN(1500)))), by{sort: d("due", 1), limit: 20})
				}},
			},
		},
	}
}

func prefixed(prefix string, names []string) (out []string) {
	for _, name := range names {
		out = append(out, prefix+name)
	}
	return out
}
