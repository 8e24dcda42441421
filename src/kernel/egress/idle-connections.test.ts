import { LRUCache } from 'lru-cache'
import { describe, expect, test } from 'vitest'
import { EgressConnection, type Ways } from './connection.ts'
import { bySystem, Names } from './dns.ts'
import { IdleConnections } from './idle-connections.ts'

const ways: Ways = { names: new Names(bySystem()), isAllowed: () => false, sessions: new LRUCache({ max: 1 }) }

/** Not connected: a connection dials when it is given something to do. */
const connectionTo = (origin: string) =>
  new EgressConnection({ origin, isSecure: true, host: 'example.com', port: 443, path: '/' }, ways, () => undefined)

describe('idle connections', () => {
  test('take returns the connection of the origin that was used last', () => {
    const idle = new IdleConnections()
    const [one, two, other] = [
      connectionTo('https://a.example'),
      connectionTo('https://a.example'),
      connectionTo('https://b.example'),
    ]
    for (const each of [one, two, other]) expect(idle.add(each)).toBeUndefined()
    expect([1, 2, 3].map(() => idle.take('https://a.example'))).toEqual([two, one, undefined])
    expect(idle.take('https://b.example')).toBe(other)
    expect(idle.size).toBe(0)
  })

  test('take does not return a lost connection', () => {
    const idle = new IdleConnections()
    const [one, two] = [connectionTo('https://a.example'), connectionTo('https://a.example')]
    idle.add(one)
    idle.add(two)
    expect([idle.remove(one), idle.remove(one)]).toEqual([true, false])
    expect([idle.take('https://a.example'), idle.take('https://a.example')]).toEqual([two, undefined])
    expect(idle.remove(two)).toBe(false)
  })

  test('add returns the oldest connections beyond 1,000', () => {
    const idle = new IdleConnections()
    const connections = Array.from({ length: 1_003 }, (_, i) => connectionTo(`https://${i % 2}.example`))
    expect(connections.map((each) => idle.add(each)).filter(Boolean)).toEqual(connections.slice(0, 3))
    expect(idle.size).toBe(1_000)
    expect(idle.take('https://1.example')).toBe(connections[1_001])
    expect(idle.take('https://0.example')).toBe(connections[1_002])
  })
})
