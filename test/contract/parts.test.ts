/** Checks that the cases of all parts cover every operation, job, command and event, and nothing else. */
import { existsSync, globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { satellites } from '../../src/service/main.ts'
import { activityPart } from '../../src/tenancy/activity/part.ts'
import { processesPart } from '../../src/tenancy/processes.ts'
import { sessionsPart, tokensPart } from '../../src/tenancy/tokens/parts.ts'
import { bulkPart } from '../../src/tenants/bulk/part.ts'
import { commands as tenantCommands } from '../../src/tenants/commands/tenants.ts'
import { erasuresPart } from '../../src/tenants/erasure/part.ts'
import { outboxPart } from '../../src/tenants/outbox/part.ts'
import { overviewPart } from '../../src/tenants/overview/part.ts'
import { eventsOf, parts } from './parts.ts'
import type { Part } from './row.ts'
import { catalogue, openRunner } from './runner.ts'

const sorted = (names: readonly string[]) => names.toSorted()
const namesOf = (all: readonly { name: string }[]) => sorted(all.map(({ name }) => name))
const casesOf = (kind: 'operations' | 'jobs' | 'commands') =>
  sorted(parts.flatMap((part: Part) => Object.keys(part[kind] ?? {})))

describe('contract cases of all parts', () => {
  test('contract cases have each operation once', () =>
    expect(casesOf('operations')).toEqual(namesOf(catalogue.operations)))
  test('contract cases have each job once', () => expect(casesOf('jobs')).toEqual(namesOf(catalogue.jobs)))
  test('contract cases have each command once', () => {
    const commands = [
      ...tenantCommands,
      ...(processesPart.commands ?? []),
      ...(tokensPart.commands ?? []),
      ...(sessionsPart.commands ?? []),
      ...(activityPart.commands ?? []),
      ...(outboxPart.commands ?? []),
      ...(erasuresPart.commands ?? []),
      ...(overviewPart.commands ?? []),
      ...(bulkPart.commands ?? []),
      ...satellites.flatMap(({ commands = [] }) => commands),
    ]
    expect(casesOf('commands')).toEqual(namesOf(commands))
  })
  test('contract cases have each event once', () =>
    expect(sorted(parts.flatMap(eventsOf))).toEqual(namesOf(catalogue.events)))

  test('each coverage.fixture.ts has a coverage.test.ts that runs its cases', () => {
    const root = join(import.meta.dirname, '../..')
    const fixtures = globSync('src/satellites/*/coverage.fixture.ts', { cwd: root })
    expect(fixtures).toHaveLength(satellites.length)
    expect(fixtures.filter((file) => !existsSync(join(root, dirname(file), 'coverage.test.ts')))).toEqual([])
  })
})

/** Members of an object's schema: a GET may return more than the state that its ETag names. */
const membersOf = (schema: z.ZodType | undefined): object => (schema instanceof z.ZodObject ? schema.shape : { schema })

describe('resources', () => {
  const { operations } = catalogue
  test('every PUT and PATCH names its resource, except those that set a counter of the store', () => {
    const changes = operations.filter(({ method }) => method === 'PUT' || method === 'PATCH')
    const unnamed = namesOf(changes.filter(({ resource }) => !resource))
    expect(unnamed.filter((name) => name !== 'quotas.setUsage')).toEqual([])
  })

  test.each(operations.filter(({ resource, method }) => resource && method !== 'GET'))(
    '$name changes a resource that a GET reads, and returns its state or nothing',
    ({ resource, reply }) => {
      const reads = operations.filter((one) => one.method === 'GET' && one.resource === resource)
      expect(reads.map((one) => membersOf(one.reply))).toEqual([expect.objectContaining(membersOf(resource?.state))])
      if (!(reply instanceof z.ZodVoid)) expect(reply).toBe(resource?.state)
    },
  )

  test.each(operations.filter(({ method, resource }) => method === 'GET' && !resource))(
    '$name reads no resource, because no operation changes the state at its path',
    ({ path }) => {
      const changes = ['PUT', 'PATCH']
      expect(operations.filter((one) => one.path === path && changes.includes(one.method))).toEqual([])
    },
  )
})

/** Series without samples in a new installation. test/series.test.ts shows their samples. */
const ABSENT_AT_FIRST = [
  'multitenancy_dead_letters',
  'multitenancy_doctor_findings',
  'multitenancy_doctor_age_seconds',
  'multitenancy_backup_newest_age_seconds',
]

/** Has a sample for each stream. */
const STREAM_LAG = 'multitenancy_webhook_stream_lag_seconds'

test('every other metric of a worker has samples after a scrape', async () => {
  const runner = await openRunner(inject('postgresUrl'))
  try {
    const { id = '' } = await runner.prepare({})
    const { tenancy, http, call } = await runner.open({ role: 'all' })
    await call('GET', '/tenants')
    await (await tenancy.tenant(id)).pool.query('select 1')
    const text = await (await http.fetch(new Request('http://localhost/metrics'))).text()
    const isExposed = (name: string) =>
      new RegExp(`^# HELP ${name} .+\n# TYPE ${name} (gauge|counter|histogram)\n${name}`, 'm').test(text)
    expect(tenancy.series.names).not.toEqual([])
    const isExpected = (name: string) => name !== STREAM_LAG || tenancy.kernel.streams.names.length > 0
    const absent = tenancy.series.names.filter((name) => !isExposed(name) && isExpected(name))
    expect(absent.sort()).toEqual(ABSENT_AT_FIRST.toSorted())
  } finally {
    await runner.end()
  }
})
