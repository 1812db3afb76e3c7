// Runs before anything is drawn, so that the page does not change its colours in front of people.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("onrecord-theme");
  } catch {
    // storage may be switched off
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
