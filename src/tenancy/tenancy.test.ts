import { afterAll, describe, expect, inject, test } from 'vitest'
import { sqliteMemory } from '../drivers/isolation/sqlite/driver.ts'
import { memoryStore } from '../drivers/store/memory.ts'
import { on } from '../kernel/events/events.ts'
import { TenantCreated } from '../tenants/tenant/events.ts'
import { installed, testTenancy } from '../testing/base/tenancy.ts'
import { partsOf } from './parts.ts'
import { defineSatellite } from './satellite.ts'

const log: string[] = []

/** Records its steps, and fails at the step `fails`. */
const recorder = <const Name extends string>(name: Name, fails?: 'service' | 'start') => {
  const record = (step: string) => {
    log.push(`${name} ${step}`)
    if (step === fails) throw new Error(`${name} fails`)
  }
  return defineSatellite({
    name,
    summary: 'Records its steps',
    service: () => {
      record('service')
      return { record }
    },
    start: (service, kernel, tenants) => service.record(tenants && kernel ? 'start' : 'starts without tenants'),
    listeners: [on(TenantCreated, 'within', (service: { record(step: string): void }) => service.record('event'))],
    work: (service) => service.record('work'),
    stop: (service) => service.record('stop'),
  })
}

const ends: (() => Promise<void>)[] = []
afterAll(async () => {
  for (const end of ends) await end()
})

describe('the parts of a tenancy', () => {
  test('start after all services are created, work after that, and stop in reverse order', async () => {
    log.length = 0
    const { tenancy, end } = await testTenancy(inject('postgresUrl'), {
      satellites: [recorder('first'), recorder('second')],
      isolation: [sqliteMemory()],
    })
    ends.push(end)
    const made = ['first service', 'second service', 'first start', 'second start', 'first work', 'second work']
    expect(log).toEqual(made)
    await installed(tenancy, { id: 'acme', name: 'Acme' })
    await tenancy.stop()
    expect(log).toEqual([...made, 'first event', 'second event', 'second stop', 'first stop'])
  })

  test.each([
    ['service', ['first service', 'second service', 'first stop']],
    ['start', ['first service', 'second service', 'first start', 'second start', 'second stop', 'first stop']],
  ] as const)('stop if the %s of a later part fails', async (step, expected) => {
    log.length = 0
    const options = { isolation: [sqliteMemory()], satellites: [recorder('first'), recorder('second', step)] }
    await expect(testTenancy(inject('postgresUrl'), options)).rejects.toThrow('second fails')
    expect(log).toEqual(expected)
  })

  test('have unique names', () => {
    const named = (name: string) => defineSatellite({ name, summary: '', service: () => undefined })
    const parts = (...names: string[]) => partsOf(memoryStore(), names.map(named))
    for (const name of ['kernel', 'transfers', 'scope', 'configuration', 'stop']) {
      expect(() => parts(name)).toThrow(`Satellite "${name}" has the name of a part of every tenancy.`)
    }
    expect(() => parts('notes', 'tasks', 'notes')).toThrow('Satellite "notes" is configured twice.')
    expect(parts('notes').map(({ name }) => name)).toContain('notes')
  })

  test('a driver that serves another tenancy continues after a failed start', async () => {
    const driver = sqliteMemory()
    const { tenancy, end } = await testTenancy(inject('postgresUrl'), { isolation: [driver] })
    ends.push(end)
    await installed(tenancy, { id: 'acme', name: 'Acme' })
    await expect(testTenancy(inject('postgresUrl'), { isolation: [driver] })).rejects.toThrow('serves one tenancy')
    expect(await (await tenancy.tenant('acme')).pool.query('select 1 as one')).toMatchObject({ rows: [{ one: 1 }] })
  })
})
