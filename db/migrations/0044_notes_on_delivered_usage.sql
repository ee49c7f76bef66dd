-- Most events are delivered without a word; support lists those of which there is something to say.
CREATE INDEX meter_event_delivered_with_note ON meter_event (id) WHERE state = 'delivered' AND last_error IS NOT NULL;
