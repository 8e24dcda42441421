import fc from 'fast-check'
import { beforeAll, expect, inject, test } from 'vitest'
import { currentContext, enterContext } from '../../kernel/base/context.ts'
import type { TimelineEntry, TimelineRequest } from '../../kernel/shares/contributions.ts'
import { defineSatellite } from '../../tenancy/satellite.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { installed, testTenancy } from '../../testing/base/tenancy.ts'
import type { TimelineOptions } from './timeline.ts'

const KINDS = ['flood', 'rain', 'storm'] as const
const kept = new Map<string, TimelineEntry[]>()
let isBroken = false

const isBefore = ({ at, id }: TimelineEntry, { before }: TimelineRequest): boolean =>
  at < before.at || (at.getTime() === before.at.getTime() && id < before.id)

/** A log of weather in memory, read as the contract of a source requires. */
const weather = defineSatellite({
  name: 'weather',
  summary: 'Reports weather',
  service: () => ({}),
  timeline: KINDS.map((name) => ({
    name,
    operation: `weather.${name}`,
    read: (_: unknown, request: TimelineRequest) => {
      if (isBroken && name === 'rain') throw new Error('no gauge')
      return (kept.get(name) ?? [])
        .filter((entry) => isBefore(entry, request) && !(request.from && entry.at < request.from))
        .toSorted((a, b) => b.at.getTime() - a.at.getTime() || (a.id < b.id ? 1 : -1))
        .slice(0, request.limit)
    },
  })),
})

let tenancy: Tenancy
let id: string
beforeAll(async () => {
  const opened = await testTenancy(inject('postgresUrl'), { satellites: [weather] })
  tenancy = opened.tenancy
  ;({ id } = await installed(tenancy, { name: 'Acme' }))
  return opened.end
})

const list = (options: TimelineOptions = {}) => tenancy.tenants.overview.timelines.list(id, options)
const namesOf = (entries: readonly { readonly at: string; readonly kind: string; readonly id: string }[]) =>
  entries.map(({ at, kind, id }) => `${at} ${kind} ${id}`)

const put = (entries: readonly { readonly hour: number; readonly kind: string; readonly id: number }[]) => {
  kept.clear()
  for (const kind of KINDS) {
    const own = new Map(entries.filter((one) => one.kind === kind).map((one) => [`${one.hour} ${one.id}`, one]))
    const toEntry = ({ hour, id }: { hour: number; id: number }): TimelineEntry => ({
      at: new Date(Date.UTC(2026, 0, 1, hour)),
      id: String(id),
      actor: null,
      title: kind,
      operation: 'health.get',
      params: {},
    })
    kept.set(kind, [...own.values()].map(toEntry))
  }
}

async function pages(limit: number, options: TimelineOptions = {}, between: () => void = () => undefined) {
  const names: string[] = []
  let cursor: string | undefined
  do {
    const page = await list({ ...options, limit, cursor })
    names.push(...namesOf(page.data))
    cursor = page.nextCursor ?? undefined
    between()
  } while (cursor !== undefined)
  return names
}

const entries = fc.array(
  fc.record({
    hour: fc.integer({ min: 0, max: 4 }),
    kind: fc.constantFrom(...KINDS),
    id: fc.integer({ min: 0, max: 9 }),
  }),
  { maxLength: 30 },
)

test('pages of any size contain each entry once, the newest first', async () => {
  await fc.assert(
    fc.asyncProperty(entries, fc.integer({ min: 1, max: 7 }), async (given, limit) => {
      put(given)
      const all = [...new Set(given.map(({ hour, kind, id }) => `2026-01-01T0${hour}:00:00.000Z ${kind} ${id}`))]
      expect(await pages(limit, { to: new Date('2026-02-01') })).toEqual(all.toSorted().toReversed())
    }),
    { numRuns: 60 },
  )
})

test('newer entries do not change the pages after a cursor', async () => {
  put(Array.from({ length: 20 }, (_, id) => ({ hour: id % 3, kind: KINDS[id % 2] ?? 'rain', id })))
  const before = await pages(3)
  const newer = { id: '99', actor: null, title: 'new', operation: 'health.get', params: {} }
  const during = await pages(3, {}, () => {
    kept.get('storm')?.push({ ...newer, id: String(Math.random()), at: new Date(Date.UTC(2026, 5, 1)) })
  })
  expect(during).toEqual(before)
})

test('a filter by kind and time limits the entries', async () => {
  put(Array.from({ length: 9 }, (_, id) => ({ hour: id, kind: KINDS[id % 3] ?? 'rain', id })))
  const [from, to] = [new Date(Date.UTC(2026, 0, 1, 1)), new Date(Date.UTC(2026, 0, 1, 7))]
  const { data } = await list({ kind: 'rain', from, to })
  expect(data.map(({ id }) => id)).toEqual(['4', '1'])
  const all = await list({ from, to })
  expect(all.data.map(({ id }) => id)).toEqual(['6', '5', '4', '3', '2', '1'])
})

test('a kind that fails is named, and the others stay', async () => {
  put([
    { hour: 1, kind: 'rain', id: 1 },
    { hour: 2, kind: 'storm', id: 2 },
  ])
  isBroken = true
  const { data, failed } = await list({ to: new Date('2026-02-01') })
  isBroken = false
  expect(failed).toEqual(['rain'])
  expect(data.map(({ kind }) => kind)).toEqual(['storm'])
})

test('a cursor is valid for its filters only', async () => {
  put(Array.from({ length: 4 }, (_, id) => ({ hour: id, kind: 'rain', id })))
  const { nextCursor } = await list({ limit: 1, kind: 'rain' })
  await expect(list({ limit: 1, cursor: nextCursor ?? '' })).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
})

test('transfers of the tenant are entries', async () => {
  kept.clear()
  const { data } = await list({ kind: 'transfer' })
  expect(data).toEqual([])
  const { transfer } = await tenancy.tenants.transfers.clone(id, {
    id: `${id}-copy`.slice(0, 48),
    name: 'Copy',
    data: true,
  })
  const { data: ofClone } = await tenancy.tenants.overview.timelines.list(transfer.tenantId, { kind: 'transfer' })
  expect(ofClone).toMatchObject([{ kind: 'transfer', id: transfer.id, title: expect.stringContaining('clone') }])
})

test('rejects an unknown tenant and an unknown kind', async () => {
  await expect(list({ kind: 'earthquake' })).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
  await expect(tenancy.tenants.overview.timelines.list('unknown')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
})

test('a token receives only kinds whose operation it may call', async () => {
  put(KINDS.map((kind) => ({ hour: 1, kind, id: 1 })))
  const grant = { bounds: [['*']] as const, operations: new Set(['weather.rain']), tenants: null, expiresAt: null }
  const asToken = (options: TimelineOptions) => enterContext({ ...currentContext(), grant }, () => list(options))
  expect((await asToken({})).data.map(({ kind }) => kind)).toEqual(['rain'])
  expect(await asToken({ kind: 'storm' })).toEqual({ data: [], nextCursor: null, failed: [] })
})
