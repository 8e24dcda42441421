import type { LookupAddress } from 'node:dns'
import { describe, expect, test, vi } from 'vitest'
import { startNameServer, type Zone } from './dns.fixture.ts'
import { byDns, bySystem, Names } from './dns.ts'
import type { Failure } from './failure.ts'

const IPV6 = '2606:4700:4700:0:0:0:0:1111'

const found = (names: Names, name: string) =>
  new Promise<readonly LookupAddress[] | Failure>((resolve) =>
    names.lookUp(name, (error, addresses) => resolve(error ? error.failure : addresses)),
  )

async function ask(zone: Zone) {
  const server = await startNameServer(zone)
  const names = new Names(byDns([server.address]))
  return { ...server, names, found: (name: string) => found(names, name) }
}

describe('a name, in DNS', () => {
  test('has the addresses of both families, IPv4 first, in any order of the responses', async () => {
    const six = Promise.withResolvers<void>()
    const { found } = await ask(async (_, type) => {
      if (type === 'AAAA') {
        setImmediate(six.resolve)
        return [IPV6]
      }
      await six.promise
      return ['192.0.2.7', '192.0.2.8']
    })
    expect(await found('hooks.example.com')).toEqual([
      { address: '192.0.2.7', family: 4 },
      { address: '192.0.2.8', family: 4 },
      { address: '2606:4700:4700::1111', family: 6 },
    ])
  })

  test('may have one family only', async () => {
    const { found } = await ask((_, type) => (type === 'A' ? [] : [IPV6]))
    expect(await found('six.example.com')).toEqual([{ address: '2606:4700:4700::1111', family: 6 }])
  })

  test('does not wait for a family without a response', async () => {
    const { found, questions } = await ask((_, type) => (type === 'A' ? ['192.0.2.7'] : undefined))
    expect(await found('four.example.com')).toEqual([{ address: '192.0.2.7', family: 4 }])
    expect(questions).toHaveLength(2) // it would be asked for again after two seconds
  })

  test.each<[string, Zone, Failure]>([
    ['that does not exist', () => 'NXDOMAIN', { error: 'name not found', isOurs: false }],
    ['without addresses', () => [], { error: 'name not found', isOurs: false }],
    [
      'that does not exist, with a failed response for one family',
      (_, type) => (type === 'A' ? 'NXDOMAIN' : 'SERVFAIL'),
      { error: 'name not found', isOurs: false },
    ],
    ['whose server fails', () => 'SERVFAIL', { error: 'name look-up failed', isOurs: true }],
    [
      'without addresses of one family, with a failed response for the other',
      (_, type) => (type === 'A' ? 'SERVFAIL' : []),
      { error: 'name look-up failed', isOurs: true },
    ],
  ])('%s has a failure', async (_, zone, failure) => {
    const { found } = await ask(zone)
    expect(await found('hooks.example.com')).toEqual(failure)
  })

  test('without a response does not delay other names', async () => {
    const { names, found, questions } = await ask((name) => (name.startsWith('dead') ? undefined : []))
    const notify = vi.fn()
    for (let i = 0; i < 64; i++) names.lookUp(`dead${i}.example.com`, notify)
    expect(await found('hooks.example.com')).toEqual({ error: 'name not found', isOurs: false })
    expect(questions.filter((question) => question.startsWith('dead')).length).toBeGreaterThanOrEqual(128)
    names.close()
    expect(notify).not.toHaveBeenCalled()
  })

  test('is looked up once for concurrent callers, and again later', async () => {
    const { found, questions } = await ask((_, type) => (type === 'A' ? ['192.0.2.7'] : []))
    const addresses = [{ address: '192.0.2.7', family: 4 }]
    const name = 'hooks.example.com'
    expect(await Promise.all([found(name), found(name), found(name)])).toEqual([addresses, addresses, addresses])
    expect(questions.toSorted()).toEqual([`${name} A`, `${name} AAAA`])
    await found(name)
    expect(questions).toHaveLength(4)
  })

  test('is looked up without a search list', async () => {
    const { found, questions } = await ask(() => 'NXDOMAIN')
    await found('a.b')
    expect(questions.toSorted()).toEqual(['a.b A', 'a.b AAAA'])
  })
})

describe('an unreachable name server', () => {
  test('is a failure of Tenantry', async () => {
    const server = await startNameServer(() => [])
    const dead = server.address.replace(/\d+$/, '1') // the port of tcpmux
    expect(await found(new Names(byDns([dead])), 'hooks.example.com')).toEqual({
      error: 'name look-up failed',
      isOurs: true,
    })
  })
})

describe('a name, by the system', () => {
  test('is found although DNS does not have it', async () => {
    expect(await found(new Names(bySystem()), 'localhost')).toContainEqual({ address: '127.0.0.1', family: 4 })
  })

  test.each<[string, NodeJS.ErrnoException | null, LookupAddress[], Failure]>([
    ['ENOTFOUND', Object.assign(new Error(), { code: 'ENOTFOUND' }), [], { error: 'name not found', isOurs: false }],
    [
      'EAI_AGAIN',
      Object.assign(new Error(), { code: 'EAI_AGAIN' }),
      [],
      { error: 'name look-up failed', isOurs: true },
    ],
    ['without an address', null, [], { error: 'name not found', isOurs: false }],
  ])('with the result %s has a failure', async (_, error, addresses, failure) => {
    expect(await found(new Names(bySystem((_name, _options, callback) => callback(error, addresses))), 'a.b')).toEqual(
      failure,
    )
  })

  test('may have one address', async () => {
    const names = new Names(bySystem((_name, _options, callback) => callback(null, '192.0.2.7', 4)))
    expect(await found(names, 'a.b')).toEqual([{ address: '192.0.2.7', family: 4 }])
  })
})
