/** Stripe's ids of the prices of donations: a flat monthly one and a metered one. */
export type DonationPrices = { readonly flat: string; readonly metered: string };
