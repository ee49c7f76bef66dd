import type { ReportedSite } from "../fact.rules.ts";

/** A made-up site in a region where such trees are planted. */
export type SimulatedSite = ReportedSite & { readonly species: readonly string[] };

const site = (given: Omit<SimulatedSite, "organization_name" | "main_image">): SimulatedSite => ({
  ...given,
  organization_name: `${given.region} Growers (simulated)`,
  main_image: `/media/simulated/${given.reference}.svg`,
});

export const SIMULATED_SITES: readonly SimulatedSite[] = [
  site({
    reference: "sim-gazi-bay",
    name: "Gazi Bay Mangroves",
    subsite_name: "Creek block 3",
    region: "Kwale",
    country: "Kenya",
    forest_type: "mangrove",
    latitude: -4.424,
    longitude: 39.508,
    species: ["Rhizophora mucronata", "Ceriops tagal", "Avicennia marina"],
  }),
  site({
    reference: "sim-mahajanga",
    name: "Betsiboka Delta",
    subsite_name: "West bank",
    region: "Boeny",
    country: "Madagascar",
    forest_type: "mangrove",
    latitude: -15.85,
    longitude: 46.31,
    species: ["Rhizophora mucronata", "Bruguiera gymnorhiza"],
  }),
  site({
    reference: "sim-demak",
    name: "Demak Coast",
    subsite_name: "Pond belt A",
    region: "Central Java",
    country: "Indonesia",
    forest_type: "mangrove",
    latitude: -6.87,
    longitude: 110.52,
    species: ["Rhizophora apiculata", "Avicennia alba"],
  }),
  site({
    reference: "sim-linhares",
    name: "Rio Doce Corridor",
    subsite_name: "Parcel 12",
    region: "Espirito Santo",
    country: "Brazil",
    forest_type: "terrestrial",
    latitude: -19.39,
    longitude: -40.07,
    species: ["Inga edulis", "Schinus terebinthifolia", "Cecropia glaziovii"],
  }),
  site({
    reference: "sim-gatineau",
    name: "Gatineau Hills",
    subsite_name: "Burn 2019",
    region: "Quebec",
    country: "Canada",
    forest_type: "terrestrial",
    latitude: 45.93,
    longitude: -76.05,
    species: ["Pinus strobus", "Picea glauca", "Acer rubrum"],
  }),
  site({
    reference: "sim-monchique",
    name: "Serra de Monchique",
    subsite_name: "South slope",
    region: "Algarve",
    country: "Portugal",
    forest_type: "terrestrial",
    latitude: 37.32,
    longitude: -8.59,
    species: ["Quercus suber", "Arbutus unedo", "Castanea sativa"],
  }),
];
