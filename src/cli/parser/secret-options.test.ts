/** Tests secrets of commands from standard input. */
import { beforeAll, describe, expect, test } from 'vitest'
import { inProcess } from '../in-process.fixture.ts'
import { allCommands } from '../program.ts'
import { useProgram } from '../program-database.fixture.ts'
import { withSecrets } from './secret-options.ts'

const SECRET = `whsec_${Buffer.alloc(32, 'a').toString('base64')}`

const tenantry = useProgram(
  inProcess,
  { LOG_LEVEL: 'warn' },
  {
    egress: { allowPrivateNetworks: true, allowHttp: true },
    settings: { define: { 'mail.password': { type: 'string', writeOnly: true } } },
  },
)
beforeAll(async () => {
  expect(await tenantry.run('tenant:create', 'Acme', '--id', 'acme')).toMatchObject({ code: 0 })
})

const createWebhook = ['tenant:webhooks:create', 'acme', 'http://127.0.0.1:1/hooks', '--event', '*', '--json']
const setSso = ['tenant:sso:set', 'acme', '--issuer', 'http://127.0.0.1:1', '--client-id', 'tenantry', '--json']

describe('a secret option with the value -', () => {
  test('takes the secret from standard input, without the end of the line', async () => {
    const ended = await tenantry.start([...createWebhook, '--secret', '-'], { stdin: `${SECRET}\n` }).ended
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(ended.stdout)).toMatchObject({ secret: SECRET })
  })

  test('is stored, and an empty argument still removes it', async () => {
    const set = (value: string, stdin: string) => tenantry.start([...setSso, '--client-secret', value], { stdin }).ended
    const stored = await set('-', 'a-client-secret\n')
    expect(JSON.parse(stored.stdout)).toMatchObject({ clientSecretSet: true })
    expect(stored.stdout + stored.stderr).not.toContain('a-client-secret')
    expect(JSON.parse((await set('', '')).stdout)).toMatchObject({ clientSecretSet: false })
  })

  test.each(['', '\n', ' \n'])('rejects the standard input %j, which could be an empty file', async (stdin) => {
    for (const line of [
      [...createWebhook, '--secret', '-'],
      [...setSso, '--client-secret', '-'],
    ]) {
      const { code, stdout, stderr } = await tenantry.start(line, { stdin }).ended
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(JSON.parse(stderr)).toMatchObject({
        code: 'E_INVALID_REQUEST',
        detail: `${line.at(-2)}: Standard input is empty.`,
      })
    }
  })

  test('is rejected for a second option, because standard input is one secret', async () => {
    const options = ['--a <secret>', '--b <secret>'].map((flags) => ({ flags, summary: '', isSecret: true }))
    const secret = () => Promise.reject(new Error('read'))
    await expect(withSecrets({ options }, { args: {}, options: { a: '-', b: '-' } }, { secret })).rejects.toMatchObject(
      {
        code: 'E_INVALID_REQUEST',
      },
    )
  })
})

test('the value of a setting is read from standard input if it is -, and its help says so', async () => {
  const set = (stdin: string) =>
    tenantry.start(['tenant:settings:set', 'acme', 'mail.password', '-', '--json'], { stdin }).ended
  const { code, stdout, stderr } = await set('correct horse\n')
  expect({ code, reply: JSON.parse(stdout) }).toMatchObject({ code: 0, reply: { name: 'mail.password', isSet: true } })
  expect(stdout + stderr).not.toContain('correct horse')
  const revealed = await tenantry.run('tenant:settings:reveal', 'acme', 'mail.password', '--json')
  expect(JSON.parse(revealed.stdout)).toMatchObject({ value: 'correct horse' })
  const empty = await set('')
  expect(empty).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining('value: Standard input is empty.'),
  })
  expect((await tenantry.run('help', 'tenant:settings:set')).stdout.replaceAll(/\s+/g, ' ')).toContain(
    'JSON; other text is a string; - reads it from standard input, or asks for it without echo',
  )
})

test('every option for a secret reads standard input, and its help says so', async () => {
  const secrets = allCommands().flatMap(({ name, options = [] }) =>
    options
      .filter(({ flags }) => /secret|password|token/i.test(flags.split(' ')[1] ?? ''))
      .map((option) => ({ name, option })),
  )
  expect(secrets.map(({ name, option }) => `${name} ${option.flags}`)).toEqual([
    'tenant:sso:set --client-secret <secret>',
    'tenant:webhooks:create --secret <secret>',
    'webhooks:create --secret <secret>',
    'tenant:webhooks:listen --secret <secret>',
  ])
  for (const { name, option } of secrets) {
    expect(option.isSecret, name).toBe(true)
    expect((await tenantry.run('help', name)).stdout.replaceAll(/\s+/g, ' ')).toContain(
      '- reads it from standard input',
    )
  }
})
