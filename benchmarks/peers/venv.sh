# Sourced in the root of the checkout: the virtual environment build/bench/peers.

venv=build/bench/peers

pip_install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

# Installs the pinned versions of a requirements file, once: install_pinned FILE [OPTIONS OF PIP]
install_pinned() {
  file=$1
  shift
  stamp=$venv/installed-$(basename "$file" .txt)
  [ ! -f "$stamp" ] || ! cmp -s "$file" "$stamp" || return 0
  "${PYTHON:-python3}" -m venv "$venv" && pip_install "$@" -r "$file" && cp "$file" "$stamp"
}
