/** Console module of the shell: screens of the installation itself. */
import { defineConsoleModule } from '../module.ts'
import { actions, screens } from './access/index.ts'
import { systemActions } from './system/actions.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'shell',
  screens: [
    ...screens,
    {
      path: '/system',
      title: text.system,
      needs: ['health.get'],
      search: 'deadLetters.list',
      navigation: { icon: 'system', order: 90 },
      key: 's',
      view: () => import('./system/page.tsx'),
    },
  ],
  actions: [...systemActions, ...actions],
  notShown: {
    'activity.stream': 'followed by every screen',
    'session.get': 'read at the start of the console',
  },
})
