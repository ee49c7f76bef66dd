-- Usage of one Stripe customer is compared with one account's books, and sent by one sender at a time.
CREATE UNIQUE INDEX account_stripe_customer ON account (stripe_customer_id) WHERE stripe_customer_id IS NOT NULL;
