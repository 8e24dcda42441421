/**
 * Meters and their usage. An identifier counts once while the provider remembers it. A repeated one is rejected with
 * 400 without a code, like the real provider does (callers recognize it by the message), or accepted.
 */
import type Stripe from 'stripe'
import { invalid, missing, ProviderError } from './errors.ts'
import { emit } from './events.ts'
import { hash, neededText, oneOf, type Params, text, whole } from './form.ts'
import { type Listed, PAGING, pageOf } from './lists.ts'
import { get, post, type Route } from './routes.ts'
import { DAY_SECONDS, HOUR_SECONDS, livingCustomer, named, type State } from './state.ts'

const OLDEST_DAYS = 35
const FUTURE_SECONDS = 300
const MAX_LENGTH = 100

export interface MeterDraft {
  readonly eventName: string
  readonly displayName?: string
  readonly formula?: 'sum' | 'count' | 'last'
  readonly customerKey?: string
  readonly valueKey?: string
}

export function createMeter(state: State, draft: MeterDraft): Stripe.Billing.Meter {
  if (activeMeter(state, draft.eventName)) {
    throw invalid(`An active meter already exists with event name ${draft.eventName}.`, 'event_name')
  }
  const meter: Stripe.Billing.Meter = {
    id: state.id('mtr'),
    object: 'billing.meter',
    created: state.now,
    customer_mapping: { event_payload_key: draft.customerKey ?? 'stripe_customer_id', type: 'by_id' },
    default_aggregation: { formula: draft.formula ?? 'sum' },
    display_name: draft.displayName ?? draft.eventName,
    event_name: draft.eventName,
    event_time_window: null,
    livemode: state.livemode,
    status: 'active',
    status_transitions: { deactivated_at: null },
    updated: state.now,
    value_settings: { event_payload_key: draft.valueKey ?? 'value' },
  }
  state.meters.set(meter.id, meter)
  emit(state, 'billing.meter.created', meter)
  return meter
}

function activeMeter(state: State, eventName: string): Stripe.Billing.Meter | undefined {
  return [...state.meters.values()].find((meter) => meter.event_name === eventName && meter.status === 'active')
}

/** Usage of a customer from `start` to before `end`. */
export function usageBetween(
  state: State,
  meter: Stripe.Billing.Meter,
  customerId: string,
  start: number,
  end: number,
): number {
  const values = state.meterEvents
    .filter(
      ({ event_name, payload, timestamp }) =>
        event_name === meter.event_name &&
        payload[meter.customer_mapping.event_payload_key] === customerId &&
        timestamp >= start &&
        timestamp < end,
    )
    .sort((one, other) => one.timestamp - other.timestamp)
    .map(({ payload }) => Number(payload[meter.value_settings.event_payload_key]))
  const { formula } = meter.default_aggregation
  if (formula === 'count') return values.length
  if (formula === 'last') return values.at(-1) ?? 0
  return values.reduce((sum, value) => sum + value, 0)
}

export function usage(state: State, eventName: string, customerId: string): number {
  const meter = [...state.meters.values()].findLast(({ event_name }) => event_name === eventName)
  if (!meter) throw new Error(`the provider has no meter for ${eventName}: create one with meter()`)
  return usageBetween(state, meter, customerId, -Infinity, Infinity)
}

function recordMeterEvent(state: State, params: Params): Stripe.Billing.MeterEvent {
  const eventName = neededText(params, 'event_name')
  const payload = Object.fromEntries(Object.entries(hash(params, 'payload') ?? {})) as Record<string, string>
  if (Object.keys(payload).length === 0) throw missing('payload')
  const meter = activeMeter(state, eventName)
  if (!meter) throw invalid(`No active meter found for event name "${eventName}".`, 'event_name')
  checkPayload(state, meter, payload)
  const identifier = text(params, 'identifier') || state.id('mev')
  if (identifier.length > MAX_LENGTH)
    throw invalid(`Invalid identifier: at most ${MAX_LENGTH} characters`, 'identifier')
  const timestamp = whole(params, 'timestamp') ?? state.now
  if (timestamp < state.now - OLDEST_DAYS * DAY_SECONDS || timestamp > state.now + FUTURE_SECONDS) {
    throw invalid('The timestamp must be within the past 35 days or up to 5 minutes in the future.', 'timestamp')
  }
  const event: Stripe.Billing.MeterEvent = {
    object: 'billing.meter_event',
    created: state.now,
    event_name: eventName,
    identifier,
    livemode: state.livemode,
    payload,
    timestamp,
  }
  const rememberedSince = state.now - state.settings.identifierHours * HOUR_SECONDS
  const isRepeated = state.meterEvents.some((one) => one.identifier === identifier && one.created > rememberedSince)
  if (!isRepeated) state.meterEvents.push(event)
  else if (state.settings.repeatedMeterEvents === 'reject') throw repeated(identifier)
  return event
}

function checkPayload(state: State, meter: Stripe.Billing.Meter, payload: Record<string, string>): void {
  const customerKey = meter.customer_mapping.event_payload_key
  const valueKey = meter.value_settings.event_payload_key
  const customer = payload[customerKey]
  const value = payload[valueKey]
  if (!customer) throw missing(`payload[${customerKey}]`)
  livingCustomer(state, customer, `payload[${customerKey}]`)
  if (meter.default_aggregation.formula === 'count') return
  if (value === undefined) throw missing(`payload[${valueKey}]`)
  if (!/^-?\d+(\.\d+)?$/.test(value)) throw invalid(`Invalid value: ${value} is not a number`, `payload[${valueKey}]`)
}

function repeated(identifier: string): ProviderError {
  const message = `An event already exists with identifier ${identifier}.`
  return new ProviderError(400, { type: 'invalid_request_error', message }, { 'stripe-should-retry': 'false' })
}

const STEP_SECONDS = { minute: 60, hour: HOUR_SECONDS, day: DAY_SECONDS }

function summaries(state: State, params: Params, id: string): Listed<Stripe.Billing.MeterEventSummary> {
  const meter = named(state.meters, 'billing meter', id)
  const customer = livingCustomer(state, neededText(params, 'customer')).id
  const start = Number(neededText(params, 'start_time'))
  const end = Number(neededText(params, 'end_time'))
  const window = text(params, 'value_grouping_window') ? oneOf(params, 'value_grouping_window', ['hour', 'day']) : null
  const step = STEP_SECONDS[window ?? 'minute']
  if (start % step !== 0 || end % step !== 0) {
    throw invalid(`start_time and end_time must be aligned with ${window ?? 'minute'} boundaries.`, 'start_time')
  }
  const width = window ? step : end - start
  const starts: number[] = []
  for (let from = start; from < end; from += width) starts.push(from)
  const found = starts.map((from) => ({
    id: `mtrusg_${meter.id}_${customer}_${from}_${width}`,
    object: 'billing.meter_event_summary' as const,
    aggregated_value: usageBetween(state, meter, customer, from, from + width),
    end_time: from + width,
    livemode: state.livemode,
    meter: meter.id,
    start_time: from,
  }))
  const used = window ? found.filter(({ aggregated_value }) => aggregated_value !== 0) : found
  return pageOf(used, params, `/v1/billing/meters/${id}/event_summaries`)
}

const METER = ['display_name', 'event_name', 'default_aggregation', 'customer_mapping', 'value_settings']
const SUMMARIES = [...PAGING, 'customer', 'start_time', 'end_time', 'value_grouping_window']

export const meterRoutes: readonly Route[] = [
  post('/v1/billing/meters', METER, (state, params) =>
    createMeter(state, {
      eventName: neededText(params, 'event_name'),
      displayName: neededText(params, 'display_name'),
      formula: oneOf(hash(params, 'default_aggregation') ?? {}, 'formula', ['sum', 'count', 'last']),
      customerKey: text(hash(params, 'customer_mapping') ?? {}, 'event_payload_key'),
      valueKey: text(hash(params, 'value_settings') ?? {}, 'event_payload_key'),
    }),
  ),
  get('/v1/billing/meters', [...PAGING, 'status'], (state, params) => {
    const status = text(params, 'status')
    const isWanted = (meter: Stripe.Billing.Meter) => status === undefined || meter.status === status
    return pageOf(state.meters.values(), params, '/v1/billing/meters', isWanted)
  }),
  get('/v1/billing/meters/:id', [], (state, _, id) => named(state.meters, 'billing meter', id)),
  get('/v1/billing/meters/:id/event_summaries', SUMMARIES, summaries),
  post('/v1/billing/meter_events', ['event_name', 'identifier', 'payload', 'timestamp'], recordMeterEvent),
]
