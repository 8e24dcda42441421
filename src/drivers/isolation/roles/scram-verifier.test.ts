import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterEach, describe, expect, inject, test, vi } from 'vitest'
import { createSecrets, randomToken } from '../../../kernel/crypto/crypto.ts'
import { bindingOfPlacement } from '../../../tenants/isolation/own-logins.ts'
import { TEST_APP_KEY, testTenancy } from '../../../testing/base/tenancy.ts'
import { schemaPg } from '../schema-pg.ts'
import { withLogin } from './login-clients.ts'
import { scramVerifier } from './scram-verifier.ts'
import { withServer } from './tenant-login.ts'

afterEach(() => void vi.restoreAllMocks())

describe('scramVerifier', () => {
  test('has the form of RFC 5803 and a new salt at each call', () => {
    expect(scramVerifier('p')).toMatch(/^SCRAM-SHA-256\$4096:[\w+/]{22}==\$[\w+/]{43}=:[\w+/]{43}=$/)
    expect(scramVerifier('p')).not.toBe(scramVerifier('p'))
  })

  test.each(['', 'pässword', 'a\nb'])('rejects the password %j, which is not printable ASCII', (password) => {
    expect(() => scramVerifier(password)).toThrow(TypeError)
  })

  test('PostgreSQL stores the verifier unchanged and accepts its password only', async () => {
    const [url, name, password] = [inject('postgresUrl'), `scram_${randomBytes(4).toString('hex')}`, randomToken()]
    const verifier = scramVerifier(password)
    await withServer(url, async (server) => {
      await server.query(`set password_encryption = md5; create role ${name} login superuser password '${verifier}'`)
      try {
        const { rows } = await server.query('select rolpassword from pg_authid where rolname = $1', [name])
        expect(rows).toEqual([{ rolpassword: verifier }])
        const userOf = async (given: string) =>
          withServer(withLogin(url, name, given), async (own) => (await own.query('select session_user')).rows)
        expect(await userOf(password)).toEqual([{ session_user: name }])
        await expect(userOf(`${password}x`)).rejects.toMatchObject({ code: '28P01' })
      } finally {
        await server.query(`drop role ${name}`)
      }
    })
  })
})

test('no statement contains the password of a login that is created and restored', async () => {
  const query = vi.spyOn(pg.Client.prototype, 'query')
  const opened = await testTenancy(inject('postgresUrl'), { isolation: [schemaPg()] })
  try {
    const { database } = opened.tenancy.kernel
    const { login, password: encrypted } = (await database.sql('select * from multitenancy.placement_logins'))
      .rows[0] as {
      login: string
      password: string
    }
    await database.sql(`alter role ${login} password 'another'`)
    await opened.open({ isolation: [schemaPg()] })
    const password = createSecrets(TEST_APP_KEY).decrypt(encrypted, bindingOfPlacement('main'))
    await withServer(withLogin(opened.url, login, password), (own) => own.query('select'))
    const sent = query.mock.calls.map((call) => JSON.stringify(call.filter((part) => typeof part !== 'function')))
    expect(sent.filter((text) => text.includes(password))).toEqual([])
    const verifiers = sent.flatMap((text) => /(create|alter) role .*? password 'SCRAM-SHA-256\$/.exec(text)?.[1] ?? [])
    expect(new Set(verifiers)).toEqual(new Set(['create', 'alter']))
  } finally {
    await opened.end()
  }
})
