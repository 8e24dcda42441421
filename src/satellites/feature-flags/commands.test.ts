/** Commands of this satellite in the program. */
import { beforeAll, expect, test } from 'vitest'
import { inProcess } from '../../cli/in-process.fixture.ts'
import { useProgram } from '../../cli/program-database.fixture.ts'

const tenantry = useProgram(inProcess)
beforeAll(async () => {
  await tenantry.run('tenant:create', 'Acme', '--id', 'acme')
})

async function json(...line: string[]): Promise<any> {
  const { code, stdout, stderr } = await tenantry.run(...line, '--json')
  expect({ code, stderr }, stderr).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}
const set = (...options: string[]) => json('tenant:flags:set', 'acme', 'new-checkout', ...options)

test('sets a flag in parts, explains it, lists it and deletes it', async () => {
  expect(await set('--rollout', '25')).toMatchObject({ enabled: false, rolloutPercent: 25, bucketKey: null })
  expect(await set('--enabled', '--bucket-key', 'userId')).toMatchObject({
    enabled: true,
    rolloutPercent: 25,
    bucketKey: 'userId',
  })
  const explain = ['tenant:flags:explain', 'acme', 'new-checkout', '--bucket-key', 'bob']
  expect(await json(...explain, '--attribute', 'plan=pro', '--attribute', 'userId=user-1')).toEqual({
    key: 'new-checkout',
    enabled: true,
    reason: 'SPLIT',
    bucket: 414,
    rolloutPercent: 25,
    value: 'user-1',
    valueFrom: 'userId',
    why: '"user-1" (userId) has bucket 414; 25 % are the buckets below 2500, so it is on',
  })
  const { data } = await json('tenant:audit:list', 'acme', '--action', 'featureFlags.edit')
  expect(data).toMatchObject([
    { target: 'featureFlag:new-checkout', before: { enabled: false, rolloutPercent: 25 }, after: { enabled: true } },
    { target: 'featureFlag:new-checkout', before: null, after: { enabled: false, rolloutPercent: 25 } },
  ])
  expect(await set('--rollout', 'none', '--bucket-key', '')).toMatchObject({ rolloutPercent: null, bucketKey: null })
  expect(await json(...explain)).toMatchObject({ reason: 'STATIC', why: 'it is enabled for all contexts' })
  expect(await json('tenant:flags:list', 'acme')).toMatchObject([{ key: 'new-checkout', tenantId: 'acme' }])

  const refused = await tenantry.run('tenant:flags:delete', 'acme', 'new-checkout')
  expect(refused.code).not.toBe(0)
  expect(await json('tenant:flags:delete', 'acme', 'new-checkout', '--yes')).toMatchObject({ deleted: true })
  expect(await json(...explain)).toMatchObject({ enabled: false, reason: 'FLAG_NOT_FOUND' })
})

test.each([
  [['tenant:flags:set', 'acme', 'one', '--rollout', '101'], 2],
  [['tenant:flags:set', 'acme', 'one', '--rollout', '5.5'], 2],
  [['tenant:flags:set', 'acme', 'one', '--enabled', '--disabled'], 2],
  [['tenant:flags:set', 'acme', 'a/b', '--enabled'], 2],
  [['tenant:flags:explain', 'acme', 'one', '--attribute', 'plan'], 2],
  [['tenant:flags:set', 'unknown', 'one', '--enabled'], 3],
  [['tenant:flags:list', 'unknown'], 3],
  [['tenant:flags:delete', 'acme', 'none', '--yes'], 3],
])('%j ends with exit code %i', async (line, code) => {
  expect((await tenantry.run(...line)).code).toBe(code)
})
