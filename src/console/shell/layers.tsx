/** Layers above the page, loaded when the browser is idle: toasts, palette, help, and the sign-in dialog of an ended session. */
import { Dialog } from '../components/dialog.tsx'
import { ToastRegion } from '../components/toast.tsx'
import { expiredStore } from '../data/session.ts'
import { useStore } from '../data/store.ts'
import { Help } from '../keys/help.tsx'
import { Palette } from '../keys/palette.tsx'
import { SignInForm } from './sign-in.tsx'
import { text } from './text.ts'
import { setTheme, type Theme } from './theme.ts'

const settings = (Object.keys(text.themes) as Theme[]).map((theme) => ({
  value: `theme ${theme}`,
  title: `${text.theme}: ${text.themes[theme]}`,
  run: () => setTheme(theme),
}))

export default function Layers() {
  const isExpired = useStore(expiredStore)
  return (
    <>
      <ToastRegion />
      <Palette settings={settings} />
      <Help />
      {isExpired && (
        <Dialog title={text.expired} description={text.expiredText} onClose={() => undefined}>
          <SignInForm />
        </Dialog>
      )}
    </>
  )
}
