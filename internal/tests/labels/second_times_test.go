package labels_test

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Measurements and events: series, bucket, and what only has a time. Lists that are paged through.
func secondTimeCases() []labelled {
	return []labelled{
		{
			name: "bodenfeuchte", service: "farm", pays: "series|bucket",
			why: "probes send batches of readings, which are read by probe and range and never changed",
			colls: []coll{{name: "bodenfeuchte", n: 6000, indexes: []string{"sonde,zeit"}, doc: func(g gen, i int) bson.D {
				return soil(oid(30, i), i%20, i/20, g)
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					n := s.IntN(200)
					s.window("bodenfeuchte", "sonde", key("S", s.IntN(20)), "zeit", minute(n*10), minute(n*10+900))
				}},
				{30, func(s *session, i int) {
					docs := make([]bson.D, 20)
					for j := range docs {
						docs[j] = soil(oid(31, i*20+j), i%20, 400+i/20*20+j, s.gen)
					}
					s.insert("bodenfeuchte", docs...)
				}},
			},
		},
		{
			name: "ais", service: "harbor", pays: "series|bucket",
			why: "positions of ships arrive by the million and are only read as the track of one ship between two times",
			colls: []coll{{name: "ais", n: 8000, indexes: []string{"mmsi,received"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(20, i), "mmsi", int64(211_000_000+i%16), "received", minute(i/16),
					"lat", 53+float64(i/16)/1000, "lon", 8+float64(i%16)/100, "sog", float64(g.between(0, 180))/10)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					from := s.IntN(380)
					s.aggregate("ais", match("mmsi", int64(211_000_000+s.IntN(16)), "received",
						d("$gte", minute(from), "$lte", minute(from+120))),
						d("$sort", d("received", 1)), d("$project", d("lat", 1, "lon", 1, "received", 1)))
				}},
				{25, func(s *session, i int) {
					docs := make([]bson.D, 25)
					for j := range docs {
						docs[j] = d("_id", uuid(21, i*25+j), "mmsi", int64(211_000_000+i%16), "received", minute(600+i/16*25+j),
							"lat", 53.5, "lon", 8.1, "sog", 12.5)
					}
					s.insert("ais", docs...)
				}},
			},
		},
		{
			name: "telemetrie", service: "rental", pays: "series|bucket",
			why: "bikes report voltage and speed, in batches, and a chart reads one bike's range; the bike's number lies in meta",
			colls: []coll{{name: "telemetrie", n: 6400, indexes: []string{"meta.velo,horodatage"}, doc: func(g gen, i int) bson.D {
				return telemetry(oid(32, i), i%32, i/32, g)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					from := s.IntN(120)
					s.window("telemetrie", "meta.velo", s.IntN(32), "horodatage", minute(from), minute(from+60))
				}},
				{30, func(s *session, i int) {
					docs := make([]bson.D, 15)
					for j := range docs {
						docs[j] = telemetry(oid(33, i*15+j), i, 300+j, s.gen)
					}
					s.insert("telemetrie", docs...)
				}},
			},
		},
		{
			name: "cell_load", service: "telecom", pays: "series|bucket", fine: "computed",
			why: "load of cells is appended each minute, read by cell and range, and aggregated by the hour",
			colls: []coll{{name: "cell_load", n: 7200, indexes: []string{"cell,ts"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(34, i), "cell", i%24, "ts", minute(i/24), "load", g.between(0, 100), "drops", g.IntN(5))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					from := s.IntN(150)
					s.window("cell_load", "cell", s.IntN(24), "ts", minute(from), minute(from+120))
				}},
				{60, func(s *session, _ int) {
					s.aggregate("cell_load", match("cell", s.IntN(24), "ts", d("$gte", minute(0), "$lt", minute(60*s.between(2, 5)))),
						d("$group", d("_id", d("$dateTrunc", d("date", "$ts", "unit", "hour")), "load", d("$avg", "$load"),
							"peak", d("$max", "$load"))))
				}},
				{24, func(s *session, i int) {
					docs := make([]bson.D, 20)
					for j := range docs {
						docs[j] = d("_id", oid(35, i*20+j), "cell", i, "ts", minute(400+j), "load", s.IntN(100), "drops", 0)
					}
					s.insert("cell_load", docs...)
				}},
			},
		},
		{
			name: "bioreactor", service: "lab", pays: "series|bucket",
			why: "eight values of a fermentation each minute, written once in batches and streamed run by run",
			colls: []coll{{name: "bioreactor", n: 6000, indexes: []string{"run_id,t"}, doc: func(g gen, i int) bson.D {
				return reactor(oid(36, i), i/500, i%500, g)
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					from := s.IntN(200)
					s.stream("bioreactor", d("run_id", s.IntN(12), "t", d("$gte", minute(from), "$lt", minute(from+200))), d("t", 1), 101)
				}},
				{40, func(s *session, i int) {
					docs := make([]bson.D, 25)
					for j := range docs {
						docs[j] = reactor(oid(37, i*25+j), 12, i*25+j, s.gen)
					}
					s.insert("bioreactor", docs...)
				}},
			},
		},
		{
			name: "wearables", service: "league", pays: "series|bucket",
			why: "vests send pulse and distance of players, the trainer reads one player's last minutes, and nothing is corrected",
			colls: []coll{{name: "wearables", n: 6600, indexes: []string{"playerId,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(38, i), "playerId", uuid(22, i%22), "at", minute(i/22), "pulse", g.between(60, 190),
					"m", g.between(0, 400))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("wearables", d("playerId", uuid(22, s.IntN(22)), "at", d("$gte", minute(s.between(100, 240)))),
						by{sort: d("at", -1)})
				}},
				{22, func(s *session, i int) {
					docs := make([]bson.D, 20)
					for j := range docs {
						docs[j] = d("_id", oid(39, i*20+j), "playerId", uuid(22, i), "at", minute(400+j), "pulse", 120, "m", 90)
					}
					s.insert("wearables", docs...)
				}},
			},
		},
		{
			name: "ilmanlaatu", service: "council", pays: "bucket",
			why: "air quality is read by station and range, and an officer corrects single values, which packed blocks make expensive",
			colls: []coll{{name: "ilmanlaatu", n: 6000, indexes: []string{"asema,mitattu"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(40, i), "asema", key("A", i%15), "mitattu", minute(i/15*10), "pm25", g.Float64()*40,
					"tarkistettu", false)
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					from := s.IntN(300) * 10
					s.window("ilmanlaatu", "asema", key("A", s.IntN(15)), "mitattu", minute(from), minute(from+800))
				}},
				{50, func(s *session, _ int) {
					s.update("ilmanlaatu", d("asema", key("A", s.IntN(15)), "mitattu", minute(s.IntN(400)*10)),
						d("$set", d("pm25", s.Float64()*40, "tarkistettu", true)))
				}},
			},
		},
		{
			name: "verbindungen", service: "telecom", pays: "bucket",
			why: "call records are read by line and month, and searched for single ones by the number called, which blocks cannot do",
			colls: []coll{{name: "verbindungen", n: 6000, indexes: []string{"anschluss,beginn"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(9_000_000+i), "anschluss", i%20, "beginn", minute(i/20*30),
					"ziel", fmt.Sprintf("+49%08d", g.IntN(400)),
					"sekunden", g.between(1, 3000))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					from := s.IntN(200) * 30
					s.window("verbindungen", "anschluss", s.IntN(20), "beginn", minute(from), minute(from+3000))
				}},
				{70, func(s *session, _ int) {
					s.find("verbindungen", d("anschluss", s.IntN(20), "beginn", d("$gte", minute(0), "$lt", minute(9000)),
						"ziel", fmt.Sprintf("+49%08d", s.IntN(400))), by{})
				}},
			},
		},
		{
			name: "kurse", service: "auction", pays: "bucket",
			why: "charts read a lot's prices by range, and sources send a moment's price again, so a time must be unique in its series",
			colls: []coll{{name: "kurse", n: 6000, indexes: []string{"lot,um"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(41, i), "lot", key("L", i%20), "um", minute(i/20), "preis", g.money())
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					from := s.IntN(180)
					s.window("kurse", "lot", key("L", s.IntN(20)), "um", minute(from), minute(from+120))
				}},
				{50, func(s *session, i int) {
					s.upsert("kurse", d("lot", key("L", s.IntN(20)), "um", minute(290+i%20)), d("$set", d("preis", s.money())))
				}},
			},
		},
		{
			name: "meterstanden", service: "property", pays: "bucket",
			why: "meters are read by range, and staff correct and delete single readings",
			colls: []coll{{name: "meterstanden", n: 6000, indexes: []string{"meter,opgenomen"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(42, i), "meter", fmt.Sprintf("NL%06d", i%25), "opgenomen", at(i/25), "kwh", float64(i/25)*1.5,
					"bron", g.of("app", "p1"))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					from := s.IntN(150)
					s.window("meterstanden", "meter", fmt.Sprintf("NL%06d", s.IntN(25)), "opgenomen", at(from), at(from+72))
				}},
				{30, func(s *session, _ int) {
					s.update("meterstanden", d("_id", oid(42, s.IntN(6000))), d("$set", d("kwh", s.money(), "bron", "hand")))
				}},
				{12, func(s *session, i int) { s.remove("meterstanden", d("_id", oid(42, i*37))) }},
			},
		},
		{
			name: "gate_moves", service: "harbor", harm: "series|bucket",
			why: "moves have a time and a gate, but each is looked up by its reference and gets its state changed",
			colls: []coll{{name: "gate_moves", n: 5000, indexes: []string{"reference", "gate,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(23, i), "reference", key("MV", i), "gate", i%12, "at", minute(i/12),
					"state", g.of("in", "out"), "plate", g.text(8))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("gate_moves", d("reference", key("MV", s.IntN(5000))), nil) }},
				{80, func(s *session, _ int) {
					s.update("gate_moves", d("reference", key("MV", s.IntN(5000))), d("$set", d("state", "out")))
				}},
			},
		},
		{
			name: "trajets", service: "rental",
			why: "a customer has three or four rides a year, each with a life of its own, so there is nothing to put into a bucket",
			colls: []coll{{name: "trajets", n: 5000, indexes: []string{"client,debut"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(43, i), "client", i%1400, "debut", at(i), "etat", g.of("en cours", "fini"), "prix", g.money())
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("trajets", d("client", s.IntN(1400), "debut", d("$gte", at(0))), by{sort: d("debut", -1)})
				}},
				{60, func(s *session, _ int) {
					s.update("trajets", d("_id", oid(43, s.IntN(5000))), d("$set", d("etat", "fini")))
				}},
			},
		},
		{
			name: "feldwetter", service: "farm",
			why: "each document already is an hour of a station with its 60 samples, which is the bucket",
			colls: []coll{{name: "feldwetter", n: 1500, indexes: []string{"station,stunde"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(44, i), "station", i%10, "stunde", at(i/10), "n", 60, "summe", g.money(),
					"proben", list(60, func(j int) any { return d("m", j, "t", g.Float64()*30) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					from := s.IntN(100)
					s.window("feldwetter", "station", s.IntN(10), "stunde", at(from), at(from+24))
				}},
				{40, func(s *session, i int) {
					s.upsert("feldwetter", d("station", i%10, "stunde", at(200+i/20)),
						d("$push", d("proben", d("m", i%60, "t", 11.5)), "$inc", d("n", 1, "summe", 11.5)))
				}},
			},
		},
		{
			name: "stoerungen", service: "telecom",
			why: "300 outages with three or four a region, opened one by one and closed by an update",
			colls: []coll{{name: "stoerungen", n: 300, indexes: []string{"region,seit"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "region", key("R", i%80), "seit", at(i*9), "offen", i%6 == 0, "text", g.text(200))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.find("stoerungen", d("region", key("R", s.IntN(80))), by{sort: d("seit", -1)})
				}},
				{30, func(s *session, _ int) { s.update("stoerungen", d("_id", s.IntN(300)), d("$set", d("offen", false))) }},
			},
		},
		{
			name: "billets", service: "theatre", harm: "series|bucket",
			why: "tickets have a time of sale, but are scanned one by one by their code and marked as used",
			colls: []coll{{name: "billets", n: 5000, indexes: []string{"code", "vendu"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(45, i), "code", fmt.Sprintf("%09x", i*7919), "vendu", minute(i), "seance", i/200, "utilise",
					false, "prix", g.money())
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("billets", d("code", fmt.Sprintf("%09x", s.IntN(5000)*7919)), nil) }},
				{90, func(s *session, _ int) {
					s.update("billets", d("code", fmt.Sprintf("%09x", s.IntN(5000)*7919)), d("$set", d("utilise", true)))
				}},
			},
		},
		{
			name: "freezers", service: "lab", harm: "series",
			why: "a freezer's minute is set again and again, and read one at a time; that is slots, which has no detector",
			colls: []coll{{name: "freezers", n: 4000, indexes: []string{"freezer,minute"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(46, i), "freezer", i%20, "minute", minute(i/20), "celsius", -80+g.Float64())
			}}},
			traffic: []requests{
				{250, func(s *session, i int) {
					s.upsert("freezers", d("freezer", s.IntN(20), "minute", minute(190+i/25)), d("$set", d("celsius", -80+s.Float64())))
				}},
				{60, func(s *session, _ int) {
					s.one("freezers", d("freezer", s.IntN(20), "minute", minute(s.IntN(200))), nil)
				}},
			},
		},
		{
			name: "registerblatt", service: "court", pays: "paging",
			why: "a Pageable counts and skips to pages anywhere in 5,000 entries, newest first, up to the last",
			colls: []coll{{name: "registerblatt", n: 5000, indexes: []string{"eingetragen"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(47, i), "eingetragen", minute(i), "firma", g.text(24), "_class", "register.Blatt")
			}}},
			traffic: []requests{
				{50, func(s *session, _ int) {
					s.count("registerblatt", bson.D{})
					s.find("registerblatt", bson.D{}, by{sort: d("eingetragen", -1), skip: 50 * s.between(1, 98), limit: 50})
				}},
			},
		},
		{
			name: "anschluesse", service: "telecom", pays: "paging",
			why: "a nightly export skips through 6,000 lines in pages of 200, so its last pages walk over all others",
			colls: []coll{{name: "anschluesse", n: 6000, doc: func(g gen, i int) bson.D {
				return d("_id", key("AN", i), "tarif", g.of("S", "M", "L"), "ort", g.city(), "inhaber", g.name())
			}}},
			traffic: []requests{
				{2, func(s *session, _ int) {
					for n := 0; n < 6000; n += 200 {
						s.find("anschluesse", bson.D{}, by{sort: d("_id", 1), skip: n, limit: 200})
					}
				}},
			},
		},
		{
			name: "plays_log", service: "radio", pays: "paging",
			why: "the station's history is an aggregation with skip at any depth of 5,000 plays of a channel",
			colls: []coll{{name: "plays_log", n: 5000, indexes: []string{"channel,aired"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(24, i), "channel", "fm1", "aired", minute(i*4), "song", g.text(20), "artist", g.name())
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.aggregate("plays_log", match("channel", "fm1"), d("$sort", d("aired", -1)), d("$skip", 25*s.between(0, 190)),
						d("$limit", 25))
				}},
			},
		},
		{
			name: "assays", service: "lab", pays: "paging",
			why: "a plugin pages with $facet, which skips inside and counts beside, to any page of 4,500 documents",
			colls: []coll{{name: "assays", n: 4500, indexes: []string{"done"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(48, i), "done", minute(i*3), "analyte", g.text(10), "value", g.Float64(), "__v", 1)
			}}},
			traffic: []requests{
				{50, func(s *session, _ int) {
					s.aggregate("assays", d("$sort", d("done", -1)), d("$facet", d(
						"docs", a{d("$skip", 30*s.between(1, 140)), d("$limit", 30)},
						"total", a{d("$count", "n")})))
				}},
			},
		},
		{
			name: "aanvragen", service: "property", pays: "paging",
			why: "two offices work through 2,500 requests each by page number, ordered by priority and age, at all depths",
			colls: []coll{{name: "aanvragen", n: 5000, indexes: []string{"kantoor,prioriteit,ontvangen"},
				doc: func(g gen, i int) bson.D {
					return d("_id", uuid(25, i), "kantoor", i%2, "prioriteit", g.between(1, 5), "ontvangen", minute(i), "van", g.name())
				}}},
			traffic: []requests{
				{70, func(s *session, _ int) {
					s.find("aanvragen", d("kantoor", s.IntN(2)), by{sort: d("prioriteit", 1, "ontvangen", 1),
						skip: 40 * s.between(5, 60), limit: 40})
				}},
			},
		},
		{
			name: "kuulutukset", service: "council", pays: "paging",
			why: "search engines crawl the notices by page number, so most requests skip thousands of 4,800 documents",
			colls: []coll{{name: "kuulutukset", n: 4800, indexes: []string{"julkaistu"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "julkaistu", at(i), "otsikko", g.text(40), "tiivistelma", g.text(80))
			}}},
			traffic: []requests{
				{70, func(s *session, i int) {
					s.find("kuulutukset", d("julkaistu", d("$lte", at(5000))),
						by{sort: d("julkaistu", -1, "_id", -1), skip: 60 * (i + 5), limit: 60})
				}},
			},
		},
		{
			name: "incidents", service: "rental",
			why: "there are 4,000 incidents, but nobody looks beyond the third page of 20",
			colls: []coll{{name: "incidents", n: 4000, indexes: []string{"signale"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(49, i), "signale", minute(i), "velo", g.IntN(500), "texte", g.text(60))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("incidents", bson.D{}, by{sort: d("signale", -1), skip: 20 * s.between(0, 2), limit: 20})
				}},
			},
		},
		{
			name: "noticias", service: "league",
			why: "a few hundred documents need no more than skip and limit",
			colls: []coll{{name: "noticias", n: 300, indexes: []string{"publicada"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(50, i), "publicada", at(i), "titulo", g.text(40))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.find("noticias", bson.D{}, by{sort: d("publicada", -1), skip: 10 * s.between(0, 29), limit: 10})
				}},
			},
		},
		{
			name: "recommendations", service: "theatre",
			why: "the order is computed from the visitor's taste, so every page computes and sorts all, and no token saves that",
			colls: []coll{{name: "recommendations", n: 2500, doc: func(g gen, i int) bson.D {
				return d("_id", oid(51, i), "play", g.text(20), "comedy", g.Float64(), "drama", g.Float64(), "dance", g.Float64())
			}}},
			traffic: []requests{
				{50, func(s *session, _ int) {
					taste := d("$add", a{d("$multiply", a{"$comedy", s.Float64()}), d("$multiply", a{"$drama", s.Float64()})})
					s.aggregate("recommendations", d("$addFields", d("score", taste)), d("$sort", d("score", -1)),
						d("$skip", 20*s.between(0, 100)), d("$limit", 20))
				}},
			},
		},
		{
			name: "artifacts", service: "builds",
			why: "a spot check skips a random number to take one document, without an order; $sample does that, and there are no pages",
			colls: []coll{{name: "artifacts", n: 4000, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(26, i), "name", g.text(20), "size", g.IntN(1_000_000), "sha", fmt.Sprintf("%040x", i))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) { s.find("artifacts", bson.D{}, by{skip: s.between(1, 3999), limit: 1}) }},
			},
		},
		{
			name: "protokolle", service: "court",
			why: "pages already go on behind the last _id, so they cost the same at any depth",
			colls: []coll{{name: "protokolle", n: 5000, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "saal", i%9, "beginn", minute(i*15), "thema", g.text(40))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.find("protokolle", d("_id", d("$gt", int64(s.IntN(5000)))), by{sort: d("_id", 1), limit: 50})
				}},
			},
		},
	}
}

func soil(id bson.ObjectID, probe, n int, g gen) bson.D {
	return d("_id", id, "sonde", key("S", probe), "zeit", minute(n*10), "feuchte", float64(g.between(100, 450))/10,
		"temp", float64(g.between(-20, 250))/10)
}

func telemetry(id bson.ObjectID, bike, n int, g gen) bson.D {
	when := minute(n).Add(time.Duration(g.IntN(50)) * time.Second)
	return d("_id", id, "meta", d("velo", bike, "modele", "v2"), "horodatage", when,
		"volt", float64(g.between(330, 420))/10, "kmh", g.between(0, 28))
}

func reactor(id bson.ObjectID, run, n int, g gen) bson.D {
	doc := d("_id", id, "run_id", run, "t", minute(n))
	for _, name := range []string{"ph", "do2", "temp", "rpm", "feed", "co2", "od", "foam"} {
		doc = append(doc, bson.E{Key: name, Value: float64(g.between(0, 10_000)) / 100})
	}
	return doc
}
