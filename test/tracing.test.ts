/** Spans and traces with the SDK of OpenTelemetry: requests, operations, statements of tenants, jobs, deliveries. */
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { createHttp, type Http } from '../src/http/app.ts'
import { webhooks } from '../src/satellites/webhooks/index.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../src/testing/base/tenancy.ts'
import { ADMIN, PREFIX, TOKEN } from './http/served.ts'
import { type Receiver, startReceiver } from './support/receiver.ts'

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT_ID = '00f067aa0ba902b7'
const TRACEPARENT = `00-${TRACE_ID}-${PARENT_ID}-01`
const SECRET = 'a-value-of-the-tenant'

const exporter = new InMemorySpanExporter()
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })

let made: TestTenancy<[ReturnType<typeof webhooks>]>
let http: Http
let receiver: Receiver

beforeAll(async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  trace.setGlobalTracerProvider(provider)
  receiver = await startReceiver()
  made = await testTenancy(inject('postgresUrl'), {
    satellites: [webhooks({ bridge: false })],
    egress: { allowPrivateNetworks: true, allowHttp: true },
    migrations: [{ name: '0001_notes', checksum: '', up: 'create table notes (body text)' }],
  })
  http = createHttp(made.tenancy, { adminTokens: [{ name: 'ops', token: TOKEN }] })
  await installed(made.tenancy, { id: 'acme', name: 'Acme' })
})
afterEach(() => {
  exporter.reset()
  receiver.forget()
})
afterAll(async () => {
  await made?.end()
  await receiver?.close()
  await provider.shutdown()
  trace.disable()
  context.disable()
})

const call = (line: string, { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {}) => {
  const [method = '', path] = line.split(' ')
  return http.fetch(
    new Request(`http://tenantry.test${PREFIX}${path}`, {
      method,
      headers: { ...ADMIN, traceparent: TRACEPARENT, 'content-type': 'application/json', ...headers },
      body: body === undefined ? null : JSON.stringify(body),
    }),
  )
}
const inTrace = () => exporter.getFinishedSpans().filter((span) => span.spanContext().traceId === TRACE_ID)
const named = (name: string): ReadableSpan => {
  const span = inTrace().find((one) => one.name === name)
  if (!span) throw new Error(`no span ${name}: ${inTrace().map((one) => one.name)}`)
  return span
}
const idOf = (span: ReadableSpan) => span.spanContext().spanId

describe('a request', () => {
  test('has a span of the trace of its caller, and its operation has a span inside', async () => {
    await call('GET /tenants/acme?x')
    const request = named(`GET ${PREFIX}/tenants/{id}`)
    expect(request).toMatchObject({
      kind: SpanKind.SERVER,
      parentSpanContext: { traceId: TRACE_ID, spanId: PARENT_ID, isRemote: true },
      attributes: {
        'http.request.method': 'GET',
        'http.route': `${PREFIX}/tenants/{id}`,
        'http.response.status_code': expect.any(Number),
        'tenantry.operation': 'tenants.get',
        'tenantry.tenant_id': 'acme',
      },
      status: { code: SpanStatusCode.UNSET },
    })
    expect(named('tenants.get').parentSpanContext?.spanId).toBe(idOf(request))
  })

  test('inside the server span of the host is an internal child of it, so the trace has one server span', async () => {
    await trace.getTracer('host').startActiveSpan('of the host', { kind: SpanKind.SERVER }, async (span) => {
      await call('GET /tenants/acme')
      span.end()
    })
    const spans = exporter.getFinishedSpans()
    const [host, request] = ['of the host', `GET ${PREFIX}/tenants/{id}`].map((name) =>
      spans.find((span) => span.name === name),
    ) as [ReadableSpan, ReadableSpan]
    expect(request).toMatchObject({ kind: SpanKind.INTERNAL, parentSpanContext: { spanId: idOf(host) } })
    expect(spans.filter(({ kind }) => kind === SpanKind.SERVER)).toEqual([host])
  })

  test('in a context that the host has extracted from the request is a server span of the trace of its caller', async () => {
    const remote = { traceId: TRACE_ID, spanId: PARENT_ID, traceFlags: 1, isRemote: true }
    await context.with(trace.setSpanContext(context.active(), remote), () => call('GET /tenants/acme'))
    expect(named(`GET ${PREFIX}/tenants/{id}`)).toMatchObject({
      kind: SpanKind.SERVER,
      parentSpanContext: { spanId: PARENT_ID, isRemote: true },
    })
  })

  test('with an error of the caller has the code, and no status of an error', async () => {
    await call('GET /tenants/unknown')
    expect(named('tenants.get')).toMatchObject({
      attributes: { 'error.type': 'E_TENANT_NOT_FOUND' },
      status: { code: SpanStatusCode.UNSET },
    })
  })
})

describe('a statement of a tenant', () => {
  const inHost = <T>(work: () => Promise<T>) =>
    trace.getTracer('host').startActiveSpan('of the host', async (span) => {
      await work().catch(() => undefined)
      span.end()
      return span.spanContext()
    })
  const queries = () => exporter.getFinishedSpans().filter(({ name }) => name === 'tenant query')

  test('has a span with its first word, without values', async () => {
    const { pool } = await made.tenancy.tenant('acme')
    const parent = await inHost(() => pool.query(`insert into notes values ($1), ('${SECRET}')`, [SECRET]))
    expect(queries()).toMatchObject([
      {
        kind: SpanKind.CLIENT,
        parentSpanContext: { spanId: parent.spanId },
        attributes: { 'db.operation.name': 'INSERT', 'tenantry.tenant_id': 'acme' },
      },
    ])
    expect(JSON.stringify(queries()[0]?.attributes)).not.toContain(SECRET)
  })

  test('in a transaction has a span, and so have its begin and its end', async () => {
    const acme = await made.tenancy.tenant('acme')
    await inHost(() => acme.transaction((tx) => tx.insertInto('notes').values({ body: SECRET }).execute()))
    expect(queries().map(({ attributes }) => attributes['db.operation.name'])).toEqual(['BEGIN', 'INSERT', 'COMMIT'])
  })

  test('with an error has its SQLSTATE, without its message', async () => {
    const { pool } = await made.tenancy.tenant('acme')
    await inHost(() => pool.query(`select '${SECRET}'::int`))
    expect(queries()).toMatchObject([
      { attributes: { 'error.type': '22P02' }, status: { code: SpanStatusCode.ERROR }, events: [] },
    ])
    expect(queries()[0]?.status.message).toBeUndefined()
  })
})

describe('a job', () => {
  test('has a span of the trace of the request that sent it', async () => {
    await call('POST /tenants', { body: { id: 'globex', name: 'Globex' }, headers: { prefer: 'wait=20' } })
    await eventually(() => named('job InstallTenant'))
    expect(named('job InstallTenant')).toMatchObject({
      kind: SpanKind.CONSUMER,
      attributes: { 'tenantry.job': 'InstallTenant', 'tenantry.attempt': 1, 'tenantry.tenant_id': 'globex' },
      parentSpanContext: { spanId: idOf(named('tenants.create')) },
    })
  })

  test('sent outside of a trace has a span of another trace', async () => {
    await installed(made.tenancy, { id: 'initech', name: 'Initech' })
    const job = await eventually(() => {
      const found = exporter.getFinishedSpans().find(({ name }) => name === 'job InstallTenant')
      if (!found) throw new Error('no span')
      return found
    })
    expect(job.parentSpanContext).toBeUndefined()
  })
})

describe('a delivery', () => {
  const subscribe = async (path: string) => {
    const { webhookId } = await made.tenancy.webhooks.create('acme', { url: receiver.url + path, events: ['order.*'] })
    return webhookId
  }

  test.each([
    ['claimed with its dispatch', (work: () => Promise<unknown>) => work()],
    ['claimed after its transaction', (work: () => Promise<unknown>) => made.tenancy.transaction(work)],
  ])('%s has a span of the trace of its dispatch, and sends it to the receiver', async (_, run) => {
    const webhookId = await subscribe('/hooks')
    const parent = trace.getTracer('host').startSpan('of the host')
    await context.with(trace.setSpan(context.active(), parent), () =>
      run(() => made.tenancy.webhooks.dispatch('acme', 'order.paid', { secret: SECRET })),
    )
    const delivery = await eventually(() => {
      const found = exporter.getFinishedSpans().find(({ name }) => name === 'webhook delivery')
      if (!found) throw new Error('no span')
      return found
    })
    const { traceId, spanId } = parent.spanContext()
    expect(delivery).toMatchObject({
      kind: SpanKind.CLIENT,
      parentSpanContext: { traceId, spanId },
      attributes: {
        'tenantry.webhook_id': webhookId,
        'tenantry.event': 'order.paid',
        'tenantry.tenant_id': 'acme',
        'tenantry.attempt': 1,
        'http.response.status_code': 200,
      },
    })
    expect(receiver.received.map(({ headers }) => headers.traceparent)).toEqual([`00-${traceId}-${idOf(delivery)}-01`])
    await made.tenancy.webhooks.delete('acme', webhookId)
  })

  test('with an error response has the status of an error', async () => {
    const webhookId = await subscribe('/fails')
    receiver.respondWith(() => ({ status: 500 }))
    await made.tenancy.webhooks.dispatch('acme', 'order.paid', {})
    await eventually(() => {
      const found = exporter.getFinishedSpans().filter(({ name }) => name === 'webhook delivery')
      expect(found[0]).toMatchObject({ attributes: { 'error.type': '500' }, status: { code: SpanStatusCode.ERROR } })
    })
    receiver.respondWith(() => ({}))
    await made.tenancy.webhooks.delete('acme', webhookId)
  })
})
