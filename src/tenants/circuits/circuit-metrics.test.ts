import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { Metrics } from '../../kernel/metrics/metrics.ts'
import { TenantLabels } from '../../kernel/metrics/tenant-labels.ts'
import { circuitSeries } from './circuit-metrics.ts'
import { type CircuitEnvironment, codesOf, openCircuitEnvironment } from './circuits.fixture.ts'

let environment: CircuitEnvironment
beforeEach(async () => {
  environment = await openCircuitEnvironment(inject('postgresUrl'))
})
afterEach(() => environment.end())

const on = (tenantId: string, placement = 'main') => ({ tenantId, placement, isolation: 'own' })

test('the first tenants and tenants with open circuits have series, the others a sum and the worst state; counters only increase', async () => {
  const labels = new TenantLabels(2)
  const { circuits } = await environment.open({ labels })
  const { work } = environment
  const metrics = new Metrics()
  metrics.register(...circuitSeries(circuits))
  const exposed = async () => {
    const lines = (await metrics.expose()).split('\n').filter((line) => line && !line.startsWith('#'))
    return Object.fromEntries(
      lines.map((line) => {
        const [, name, tenant, value] =
          /^multitenancy_circuit_(state|failures_total|successes_total)\{tenant_id="([^"]+)"\} (\d+)$/.exec(line) ?? []
        return [`${name} ${tenant}`, Number(value)]
      }),
    )
  }

  await codesOf(circuits, on('acme'), work.healthy, 3)
  await codesOf(circuits, on('globex', 'second'), work.healthy)
  expect(await exposed()).toEqual({
    'state acme': 0,
    'state globex': 0,
    'failures_total acme': 0,
    'failures_total globex': 0,
    'successes_total acme': 3,
    'successes_total globex': 1,
  })

  await codesOf(circuits, on('initech'), work.wrongSql, 2)
  await codesOf(circuits, on('hooli', 'second'), work.healthy, 4)
  await codesOf(circuits, on('initech'), work.databaseMissing, 7)
  expect(await exposed()).toMatchObject({ 'state _other': 0, 'failures_total _other': 7, 'successes_total _other': 6 })
  expect(labels.dropped).toBe(2)

  await codesOf(circuits, on('initech'), work.databaseMissing, 1)
  expect(await exposed()).toMatchObject({
    'state initech': 2,
    'failures_total initech': 0,
    'state _other': 0,
    'failures_total _other': 8,
  })
  expect(labels.dropped).toBe(1)

  await codesOf(circuits, on('hooli', 'second'), work.serverDown, 20)
  expect(await exposed()).toMatchObject({
    'state acme': 0,
    'state globex': 2,
    'state initech': 2,
    'state _other': 2,
    'failures_total _other': 13,
  })

  environment.clock.advance(30_000)
  expect(await exposed()).toMatchObject({ 'state globex': 1, 'state initech': 1, 'state _other': 1 })
  await codesOf(circuits, on('initech'), work.healthy, 2)
  expect(await exposed()).toMatchObject({
    'state initech': 0,
    'successes_total initech': 2,
    'successes_total _other': 6,
  })
})

test('series are printed with HELP and TYPE even before the first circuit', async () => {
  const { circuits } = await environment.open()
  const metrics = new Metrics()
  metrics.register(...circuitSeries(circuits))
  expect((await metrics.expose()).split('\n').filter((line) => line.startsWith('# TYPE'))).toEqual([
    '# TYPE multitenancy_circuit_state gauge',
    '# TYPE multitenancy_circuit_failures_total counter',
    '# TYPE multitenancy_circuit_successes_total counter',
  ])
})
