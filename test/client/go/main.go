// Uses the Go clients that ogen generates, and prints what they returned as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/ogen-go/ogen/ogenerrors"

	"clients/standalone"
	"clients/store"
)

// What useStandalone does is this many events.
const recordedEvents = 6

type object = map[string]any

// take returns the response of the expected type.
func take[Expected any, Given any](response Given, err error) Expected {
	if err != nil {
		panic(err)
	}
	expected, ok := any(response).(Expected)
	if !ok {
		panic(fmt.Sprintf("unexpected response %T: %+v", response, response))
	}
	return expected
}

// nameOf returns the name of the alternative that a union has.
func nameOf(union any) string {
	value := reflect.ValueOf(union)
	for index := 1; index < value.NumField(); index++ {
		if !value.Field(index).IsZero() {
			return value.Type().Field(index).Name
		}
	}
	return ""
}

type key string

func (own key) ApiKey(context.Context, standalone.OperationName) (standalone.ApiKey, error) {
	return standalone.ApiKey{APIKey: string(own)}, nil
}

type credentials struct{ key, domain string }

func (own credentials) ApiKey(context.Context, store.OperationName) (store.ApiKey, error) {
	return store.ApiKey{APIKey: own.key}, nil
}

func (own credentials) ShopName(context.Context, store.OperationName) (store.ShopName, error) {
	return store.ShopName{APIKey: own.domain}, nil
}

func (own credentials) UserId(context.Context, store.OperationName) (store.UserId, error) {
	return store.UserId{}, ogenerrors.ErrSkipClientSecurity
}

func useStandalone(url, apiKey string) object {
	ctx := context.Background()
	client := take[*standalone.Client](standalone.NewClient(url, key(apiKey)))
	stranger := take[*standalone.Client](standalone.NewClient(url, key("unknown")))
	register := func(registration standalone.NewTreeRegistration, idempotencyKey standalone.OptString) standalone.TreeRegistrations {
		return take[*standalone.RegisterTreesOKHeaders](client.RegisterTrees(
			ctx, &registration, standalone.RegisterTreesParams{IdempotencyKey: idempotencyKey},
		)).Response
	}
	registration := standalone.NewTreeRegistration{
		Count:       3_000_000_000,
		Attribution: standalone.NewOptString("autumn"),
		Metadata:    standalone.NewOptMetadata(standalone.Metadata{"order": []byte(`"1001"`)}),
	}
	registered := register(registration, standalone.NewOptString("order-1001"))
	replayed := register(registration, standalone.NewOptString("order-1001"))
	large := registered.TreeDetails[0].ID
	other := register(standalone.NewTreeRegistration{Count: 5}, standalone.OptString{}).TreeDetails[0].ID
	today := time.Now().UTC()
	found := [][]any{}
	for _, each := range take[*standalone.TreeRegistrationsHeaders](client.ListTrees(ctx, standalone.ListTreesParams{
		AttributionKey: standalone.NewOptString("autumn"),
		CreatedAt:      standalone.NewOptDate(today.AddDate(0, 0, -1)),
		EndAt:          standalone.NewOptDate(today.AddDate(0, 0, 1)),
		Metadata:       standalone.NewOptString(`{"order":"1001"}`),
	})).Response.TreeDetails {
		found = append(found, []any{each.Count, json.RawMessage(each.Metadata["order"])})
	}
	batch := []string{}
	for _, result := range take[*standalone.TreeRegistrationBatchHeaders](client.RegisterTreesInBatch(
		ctx,
		&standalone.NewTreeRegistrationBatch{Items: []standalone.NewTreeRegistration{{Count: 1}, {Count: 0}}},
		standalone.RegisterTreesInBatchParams{Atomic: standalone.NewOptBool(false)},
	)).Response.Results {
		batch = append(batch, nameOf(result))
	}
	refunded := take[*standalone.TreeRefundHeaders](client.RefundTrees(ctx, &standalone.NewTreeRefund{
		ID:     other,
		Count:  standalone.NewOptInt64(2),
		Reason: standalone.NewOptString("returned"),
	}, standalone.RefundTreesParams{})).Response
	charity := take[*standalone.CharityPageHeaders](client.SearchCharities(ctx, standalone.SearchCharitiesParams{
		Name:     standalone.NewOptString("red cross"),
		PageSize: standalone.NewOptInt64(1),
	})).Response.Charities[0]
	donation := take[*standalone.RecordedDonationHeaders](client.Donate(
		ctx, &standalone.NewDonation{AmountCents: 500, Ein: standalone.NewOptString(charity.Ein)}, standalone.DonateParams{},
	)).Response
	donationRefund := take[*standalone.DonationRefundHeaders](client.RefundDonation(
		ctx, &standalone.NewDonationRefund{ID: donation.DonationID}, standalone.RefundDonationParams{},
	)).Response
	// The feed waits for open transactions of other databases on the server.
	listEvents := func() *standalone.EventsHeaders {
		return take[*standalone.EventsHeaders](client.ListEvents(
			ctx, standalone.ListEventsParams{Limit: standalone.NewOptInt64(100)},
		))
	}
	feed := listEvents()
	for len(feed.Response.Events) < recordedEvents {
		feed = listEvents()
	}
	events, counted := []string{}, []int64{}
	for _, event := range feed.Response.Events {
		events = append(events, nameOf(event))
		if created, ok := event.GetRegistrationCreatedEvent(); ok {
			counted = append(counted, created.Data.Count)
		}
	}
	evidenceOf := func(stage standalone.OptReadTreeEvidenceEvidenceStage) standalone.TreeEvidence {
		return take[*standalone.TreeEvidenceHeaders](client.ReadTreeEvidence(
			ctx, standalone.ReadTreeEvidenceParams{ID: large, EvidenceStage: stage},
		)).Response
	}
	stages := object{}
	for _, stage := range standalone.ReadTreeEvidenceEvidenceStage("").AllValues() {
		names := []string{}
		for _, milestone := range evidenceOf(standalone.NewOptReadTreeEvidenceEvidenceStage(stage)).Timeline {
			if evidence, ok := milestone.Evidence.Get(); ok {
				names = append(names, nameOf(evidence))
			}
		}
		stages[string(stage)] = names
	}
	return object{
		"total":             registered.TotalPlantedTrees,
		"replayed":          replayed.TreeDetails[0].ID == large,
		"found":             found,
		"batch":             batch,
		"refunded":          []int64{refunded.RefundedTrees, refunded.TotalPlantedTrees},
		"donated":           []any{donation.AmountCents, donation.CharityName == charity.Name, donation.TotalDonations},
		"donation_refunded": donationRefund.RefundDetails[0].Refunded,
		"events":            events,
		"counted":           counted,
		"evidence":          evidenceOf(standalone.OptReadTreeEvidenceEvidenceStage{}).Timeline[0].Evidence.Value.RegisteredEvidence.Count,
		"stages":            stages,
		"summary":           len(take[*standalone.EvidenceSummaryHeaders](client.ReadEvidenceSummary(ctx)).Response.Summary.Countries) == 0,
		"usage":             take[*standalone.UsageHeaders](client.ReadUsage(ctx, standalone.ReadUsageParams{RegistrationID: large})).Response.State,
		"unknown_key": take[*standalone.RegisterTreesForbidden](
			stranger.RegisterTrees(ctx, &registration, standalone.RegisterTreesParams{}),
		).Response.Error,
		"invalid": take[*standalone.RegisterTreesBadRequest](
			client.RegisterTrees(ctx, &standalone.NewTreeRegistration{}, standalone.RegisterTreesParams{}),
		).Response.Error,
		"not_found": take[*standalone.ReadTreeEvidenceNotFound](
			client.ReadTreeEvidence(ctx, standalone.ReadTreeEvidenceParams{ID: "unknown"}),
		).Response.Error,
	}
}

func useStore(url, apiKey, domain string) object {
	ctx := context.Background()
	client := take[*store.Client](store.NewClient(url, credentials{apiKey, domain}))
	stranger := take[*store.Client](store.NewClient(url, credentials{apiKey, "unknown.example.com"}))
	customer := store.NewOptString("Ann Lee")
	var receipt store.TreeReceipt
	for _, number := range []int64{1, 2, 3} {
		for range 2 {
			receipt = take[*store.TreeReceiptHeaders](client.PlantTrees(
				ctx,
				&store.NewTreeRecord{
					Trees:        number,
					CustomerName: customer,
					OrderID:      store.NewOptString(fmt.Sprintf("#%d", number)),
				},
				store.PlantTreesParams{IdempotencyKey: store.NewOptString(fmt.Sprintf("order-%d", number))},
			)).Response
		}
	}
	donation := take[*store.StoreDonationHeaders](client.Donate(ctx, &store.NewStoreDonation{
		CharityID:     "53-0196605",
		AmountDollars: store.NewOptFloat64(1234567.89),
		CustomerName:  customer,
	}, store.DonateParams{})).Response
	pages := [][]int64{}
	for cursor := (store.OptString{}); ; {
		page := take[*store.TreeRecordsHeaders](client.ListTrees(ctx, store.ListTreesParams{
			CustomerName:   store.NewOptString("ann"),
			Limit:          store.NewOptInt64(2),
			AfterCreatedAt: cursor,
		})).Response
		counts := []int64{}
		for _, tree := range page.Trees {
			counts = append(counts, tree.Count)
		}
		pages = append(pages, counts)
		if page.NextCursor == "" {
			break
		}
		cursor = store.NewOptString(page.NextCursor)
	}
	reversed := take[*store.StoreRefundHeaders](client.Refund(ctx, &store.NewStoreRefund{
		Type:     store.NewStoreRefundTypeTree,
		Quantity: 4,
	}, store.RefundParams{})).Response
	stats := take[*store.ImpactStatsHeaders](client.ImpactStats(ctx, store.ImpactStatsParams{Customer: customer})).Response
	return object{
		"verified":      take[*store.KeyVerificationHeaders](client.VerifyKey(ctx)).Response.Features.TreePlanting,
		"planted":       []any{receipt.TreesPlanted, receipt.OrderID},
		"donated":       donation.Amount,
		"pages":         pages,
		"reversed":      reversed.Count,
		"stats":         []any{stats.Trees, stats.Donations},
		"evidence":      take[*store.StoreEvidenceHeaders](client.Evidence(ctx, store.EvidenceParams{})).Response.Timeline[0].Evidence.Value.RegisteredEvidence.Count,
		"unknown_store": take[*store.VerifyKeyUnauthorized](stranger.VerifyKey(ctx)).Response.Code,
	}
}

func main() {
	err := json.NewEncoder(os.Stdout).Encode(object{
		"standalone": useStandalone(os.Getenv("IMPACT_URL"), os.Getenv("IMPACT_API_KEY")),
		"store":      useStore(os.Getenv("IMPACT_STORE_URL"), os.Getenv("IMPACT_STORE_KEY"), os.Getenv("IMPACT_STORE_DOMAIN")),
	})
	if err != nil {
		panic(err)
	}
}
