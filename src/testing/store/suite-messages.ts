/** Group of `storeSuite`: publish and subscribe. */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import { MAX_MESSAGE_BYTES } from '../../kernel/store/store.ts'
import type { OpenedStore } from './opened-store.ts'

export function messagesSuite(
  { describe, expect, test, vi }: typeof import('vitest'),
  opened: () => OpenedStore,
): void {
  describe('messages', () => {
    const rejection = expect.objectContaining({ code: InvalidRequest.code })
    const aChannel = () => `test.${randomUUID().slice(0, 8)}`
    const hearing = async (channel: string) => {
      const received: string[] = []
      const { close } = await opened().store.subscribe(
        channel,
        (message) => void received.push(message),
        () => undefined,
      )
      return { received, close }
    }

    test('all subscribers of a channel receive its messages unchanged and in order', async () => {
      const channel = aChannel()
      const first = await hearing(channel)
      const second = await hearing(channel)
      const other = await hearing(`${channel}.other`)
      const messages = [
        '',
        'plain',
        '{"a":[1]}',
        'schlüssel 日本語 🔑',
        `'; notify x; --`,
        'm'.repeat(MAX_MESSAGE_BYTES),
      ]
      for (const message of messages) await opened().store.publish(channel, message)
      await opened().store.publish(`${channel}.other`, 'for the other channel')
      await vi.waitFor(() => expect([first.received, second.received]).toEqual([messages, messages]), 10_000)
      await vi.waitFor(() => expect(other.received).toEqual(['for the other channel']), 10_000)
    })

    test('a closed subscriber receives no further message', async () => {
      const channel = aChannel()
      const leaving = await hearing(channel)
      const staying = await hearing(channel)
      await leaving.close()
      await opened().store.publish(channel, 'for the remaining subscriber')
      await vi.waitFor(() => expect(staying.received).toEqual(['for the remaining subscriber']), 10_000)
      expect(leaving.received).toEqual([])
    })

    test('a subscriber that throws does not block other subscribers', async () => {
      const channel = aChannel()
      await opened().store.subscribe(
        channel,
        () => {
          throw new Error('cannot be handled')
        },
        () => undefined,
      )
      const { received } = await hearing(channel)
      await opened().store.publish(channel, 'one')
      await opened().store.publish(channel, 'two')
      await vi.waitFor(() => expect(received).toEqual(['one', 'two']), 10_000)
    })

    test('a message that is too long or invalid text, or without a channel, is rejected', async () => {
      const { store } = opened()
      await expect(store.publish('test', 'ä'.repeat(MAX_MESSAGE_BYTES / 2 + 1))).rejects.toEqual(rejection)
      await expect(store.publish('test', 'a\0b')).rejects.toEqual(rejection)
      for (const channel of ['', 'a b', 'c'.repeat(41)]) {
        await expect(store.publish(channel, 'x')).rejects.toEqual(rejection)
        await expect(
          store.subscribe(
            channel,
            () => undefined,
            () => undefined,
          ),
        ).rejects.toEqual(rejection)
      }
    })
  })
}
