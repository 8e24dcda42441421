import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { startFaultProxy } from '../../../../test/support/fault-proxy.ts'
import { startProxy, type Proxy as Way } from '../../../../test/support/proxy.ts'
import { createLogger } from '../../../kernel/base/logger.ts'
import { Database } from '../../../kernel/database/database.ts'
import { createTestDatabase, type TestDatabase } from '../../../testing/base/database.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../../testing/base/tenancy.ts'

const NOTES = [{ name: '0001_notes', checksum: '', up: 'create table notes (owner text)' }]
const as = (login: string, password: string) => (url: string) => {
  const changed = new URL(url)
  changed.username = login
  changed.password = password
  return changed.href
}

/** Creates a login of the host, removed after all tests. */
async function createLogin(): Promise<string> {
  const name = `host_${randomBytes(4).toString('hex')}`
  const server = new Database({ url: inject('postgresUrl'), max: 1 }, createLogger({ level: 'silent' }))
  await server.sql(`create role ${name} login password 'p'`)
  roles.push(async () => {
    await server.sql(`drop role ${name}`)
    await server.close()
  })
  return name
}
const roles: (() => Promise<void>)[] = []
afterAll(() => Promise.all(roles.map((remove) => remove())))

describe('the start with an unavailable placement', () => {
  let opened: TestTenancy<[]>
  let elsewhere: TestDatabase
  let way: Way
  const lines: string[] = []
  const placements = (url: string, tenantUrl?: string) => ({ elsewhere: { url, tenantUrl } })
  const start = (more: Parameters<typeof opened.open>[0]) =>
    opened.open({
      logger: createLogger({ level: 'warn', write: (line) => void lines.push(line) }),
      role: 'api',
      ...more,
    })
  const logged = () => lines.map((line) => JSON.parse(line)).filter(({ placement }) => placement === 'elsewhere')

  beforeEach(async () => {
    lines.splice(0)
    elsewhere = await createTestDatabase(inject('postgresUrl'))
    way = await startProxy(elsewhere.url)
    opened = await testTenancy(inject('postgresUrl'), { migrations: NOTES })
  })
  afterEach(async () => {
    await elsewhere.drop() // before the roles that have rights in it
    await opened.end()
    await way.close()
  })

  test.each(['made', 'given'])('serves the other placements if its login was %s at an earlier start', async (how) => {
    const tenantUrl = how === 'given' ? as(await createLogin(), 'p')(way.url) : undefined
    const first = await opened.open({ placements: placements(way.url, tenantUrl) })
    await installed(first, { id: 'near', name: 'Near' })
    await installed(first, { id: 'far', name: 'Far', placement: 'elsewhere' })
    await first.stop()
    await way.close()
    const next = await start({ placements: placements(way.url, tenantUrl) })
    expect(logged()).toMatchObject([{ msg: expect.stringContaining('cannot be reached') }])
    const notes = async (id: string) => (await next.tenant(id)).db.selectFrom('notes').selectAll().execute()
    expect(await notes('near')).toEqual([])
    await expect(notes('far')).rejects.toThrow()
    await way.open()
    await eventually(async () => expect(await notes('far')).toEqual([]))
    await way.close()
    await way.open()
  })

  test('fails with the name of the placement if it was never available', async () => {
    await way.close()
    await expect(start({ placements: placements(way.url) })).rejects.toMatchObject({
      code: 'E_DEPENDENCY_UNAVAILABLE',
      message: expect.stringContaining('the placement "elsewhere" does not respond'),
      cause: { code: 'ECONNREFUSED' },
    })
    await way.open()
  })

  test('is followed by a start that checks the roles of the placement and fails without them', async () => {
    await (await opened.open({ placements: placements(way.url) })).stop()
    const rows = await opened.tenancy.kernel.database.sql(
      `update multitenancy.placement_logins set scope_role = scope_role || '_gone' where placement = 'elsewhere' returning 1`,
    )
    expect(rows.rows).toHaveLength(1)
    await expect(start({ placements: placements(way.url) })).rejects.toThrow('Was its database restored here?')
    await opened.tenancy.kernel.database.sql(
      `update multitenancy.placement_logins set scope_role = replace(scope_role, '_gone', '')`,
    )
  })

  test.each([
    ['has not returned its login yet', 'create role', false],
    ['has its login', 'pg_roles', true],
  ])('does not wait without limit for an unresponsive server that %s', async (_words, statement, isKept) => {
    const hanging = await startFaultProxy(elsewhere.url)
    const url = hanging.through(elsewhere.url)
    if (isKept) await (await opened.open({ placements: placements(url) })).stop()
    const fault = hanging.at(statement, 'hang')
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const starting = start({ placements: placements(url) }).then(
      () => 'started',
      ({ message }) => message,
    )
    await fault.happened
    vi.advanceTimersByTime(60_000)
    vi.useRealTimers()
    expect(await starting).toMatch(isKept ? 'started' : 'the placement "elsewhere" does not respond')
    expect(logged()).toHaveLength(isKept ? 1 : 0)
    await hanging.close()
  })
})
