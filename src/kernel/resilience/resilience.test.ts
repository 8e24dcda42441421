import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { systemClock } from '../base/clock.ts'
import { DependencyUnavailable, InvalidRequest } from '../base/errors.ts'
import { createLogger } from '../base/logger.ts'
import { Database } from '../database/database.ts'
import { type EventOf, Events } from '../events/events.ts'
import { DependencyDegraded, Resilience, type ResilienceConfig } from './resilience.ts'
import { openTracing } from './tracing.ts'

const silent = createLogger({ level: 'silent' })
const unavailable = DependencyUnavailable('the store at 10.0.0.7 cannot be reached', {
  cause: new Error('ECONNREFUSED'),
})

let made: TestDatabase
let database: Database
let published: EventOf<typeof DependencyDegraded>[]
let lines: string[]

beforeAll(async () => {
  made = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: made.url, max: 1 }, silent)
})
beforeEach(() => {
  published = []
  lines = []
})
afterAll(async () => {
  await database.close()
  await made.drop()
})

async function open(config: ResilienceConfig = {}): Promise<Resilience> {
  const events = new Events(database, systemClock)
  events.subscribe(DependencyDegraded, 'after', (event) => void published.push(event))
  const log = createLogger({ level: 'warn', write: (line) => void lines.push(line) })
  return new Resilience(config, { events, log, tracing: await openTracing() })
}

const samples = (resilience: Resilience) =>
  resilience
    .series()
    .flatMap(({ collect }) => [...(collect() as Iterable<{ labels: Record<string, string>; value: number }>)])
    .map(({ labels, value }) => `${labels.dependency} ${labels.policy} ${value}`)

describe('a policy', () => {
  test('of fail-open continues, and is reported each time', async () => {
    const resilience = await open()
    for (let n = 0; n < 3; n++) resilience.degrade('redis.quota', 'quotas.consume', 'acme', unavailable)
    await new Promise(setImmediate)
    expect(published).toHaveLength(3)
    expect(published[0]).toMatchObject({
      dependency: 'redis',
      operation: 'quotas.consume',
      tenantId: 'acme',
      policy: 'fail-open',
      errorCode: 'E_DEPENDENCY_UNAVAILABLE',
    })
    expect(samples(resilience)).toEqual(['redis fail-open 3', 'database fail-open 0', 'provider fail-closed 0'])
    expect(lines).toHaveLength(1)
  })

  test('of fail-closed rejects with its Retry-After, and is reported', async () => {
    const resilience = await open({ redis: { quota: 'fail-closed' }, retryAfterSeconds: 17 })
    const refuse = () => resilience.degrade('redis.quota', 'quotas.consume', 'acme', unavailable)
    expect(refuse).toThrow(expect.objectContaining({ code: 'E_DEPENDENCY_UNAVAILABLE', retryAfterSeconds: 17 }))
    expect(refuse).not.toThrow('10.0.0.7')
    await new Promise(setImmediate)
    expect(published.map(({ policy }) => policy)).toEqual(['fail-closed', 'fail-closed'])
    expect(samples(resilience)).toEqual([
      'redis fail-closed 2',
      'redis fail-open 0',
      'database fail-open 0',
      'provider fail-closed 0',
    ])
  })

  test('applies to one use, and to no other use of the dependency', async () => {
    const resilience = await open({ redis: { quota: 'fail-closed' }, database: { flags: 'fail-closed' } })
    expect(resilience.policyOf('redis.quota')).toBe('fail-closed')
    expect(resilience.policyOf('redis.cache')).toBe('fail-open')
    expect(resilience.policyOf('database.flags')).toBe('fail-closed')
  })

  test('does not apply to other failures', async () => {
    const resilience = await open()
    expect(() => resilience.degrade('redis.quota', 'quotas.consume', 'acme', InvalidRequest('no'))).toThrow('no')
    expect(() => resilience.degrade('redis.quota', 'quotas.consume', 'acme', new TypeError('a fault'))).toThrow(
      'a fault',
    )
    await new Promise(setImmediate)
    expect(published).toEqual([])
  })

  test('of an unknown name is rejected, and so is an unknown use', async () => {
    await expect(open({ redis: { quota: 'open' as never } })).rejects.toThrow()
    await expect(open({ redis: { quotas: 'fail-open' } as never })).rejects.toThrow()
    await expect(open({ retryAfterSeconds: 0 })).rejects.toThrow()
  })
})

describe("the host's traces", () => {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  beforeAll(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    trace.setGlobalTracerProvider(provider)
  })
  afterAll(async () => {
    await provider.shutdown()
    trace.disable()
    context.disable()
  })

  test('have an event on the active span, without the message of the dependency', async () => {
    const resilience = await open()
    trace.getTracer('host').startActiveSpan('GET /orders', (span) => {
      resilience.degrade('redis.quota', 'quotas.consume', 'acme', unavailable)
      span.end()
    })
    const [span] = exporter.getFinishedSpans()
    expect(span?.events.map(({ name, attributes }) => ({ name, attributes }))).toEqual([
      {
        name: 'DependencyDegraded',
        attributes: {
          'tenantry.dependency': 'redis',
          'tenantry.operation': 'quotas.consume',
          'tenantry.policy': 'fail-open',
          'tenantry.tenant_id': 'acme',
          'error.type': 'E_DEPENDENCY_UNAVAILABLE',
        },
      },
    ])
    expect(JSON.stringify(span?.events)).not.toContain('10.0.0.7')
  })

  test('have no event outside of a span', async () => {
    exporter.reset()
    const resilience = await open()
    resilience.degrade('redis.quota', 'quotas.consume', null, unavailable)
    expect(exporter.getFinishedSpans()).toEqual([])
  })
})
